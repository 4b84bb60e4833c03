// Package rlock has the locks that Go and Java share: Redisson's RLock, RFencedLock and
// RFairLock, on its keys and channels.
package rlock

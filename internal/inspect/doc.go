// Package inspect reads limiters and locks and says what it has found, and writes nothing: it
// is for the command line, the web page and tests. Read takes one limiter in one transaction of
// commands that only read, in one round trip, so that value and records are of the same
// moment; ReadLock does the same for a lock. However many records or waiters there are, it
// reads a bounded number of them and says so.
//
// What it reads may have been written by anybody. A field that is no number, a record that
// no version of Redisson writes, a key of another kind: each is told as it is.
package inspect

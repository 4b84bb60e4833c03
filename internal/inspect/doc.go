// Package inspect reads limiters and locks and reports their state, for the command line, the web page and
// tests. It writes nothing. Read takes one limiter in one transaction of commands that only read, in one
// round trip, so that value and records belong to the same moment; ReadLock does the same for a lock. It
// reads a bounded number of records or waiters, and says if there are more.
//
// Any program may have written the keys. A field that is not a number, a record that no version of Redisson
// writes, a key of another kind: each is reported as it is.
package inspect

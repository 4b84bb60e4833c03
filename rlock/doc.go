// Package rlock provides locks that Go and Java share: Redisson's RLock, RFencedLock and RFairLock, on the
// same keys and channels. A Go service and a Java service that use the same name exclude each other.
//
//	locks := rlock.New(client) // a *rratelimiter.Client
//	hold, err := locks.Lock("report").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock(ctx)
//
// In Java a thread owns a lock. In Go a [Hold] does: only the Hold can unlock or relock it.
// Goroutines that share a lock share its Hold.
//
// A hold lasts until Unlock while its process lives: its lease of 30 s is renewed every 10 s. If the
// process dies, the lock is free when the lease expires. If Redis cannot be reached, [Hold.Context] ends
// before the lease: work under the lock should then stop.
//
// # Which lock
//
//   - [Lock] has at most one holder, as long as no process sleeps past its lease and no
//     failover forgets the lock. It is for work that may be done twice, at a cost.
//   - [FencedLock] also gives each hold a token, by which a resource rejects a holder whose
//     lease has expired. Tokens grow even across a failover that has forgotten the last hold,
//     as long as the clocks of the servers agree.
//   - [FairLock] serves callers in the order of their requests, across processes and
//     languages. It costs more.
//
// Use a name for one kind only, because a FairLock does not see the waiters of a Lock. Lock and
// FencedLock may share a name, but a Lock draws no token. A lock with the name of a limiter fails with
// ErrBadState: both use the name as their key.
//
// All three implement [Locker], which a test can fake with [FakeHold].
//
// Waiting callers sleep until Redis notifies them of an unlock, or until the lease expires; within a
// process they are served in order. docs/lock.md maps the Java methods and says what no lock in Redis can
// promise.
package rlock

// Package rlock has the locks that Go and Java share: Redisson's RLock, RFencedLock and
// RFairLock, on its keys and channels. A Go service and a Java service that use one name
// keep one another out.
//
//	locks := rlock.New(client) // a *rratelimiter.Client
//	hold, err := locks.Lock("report").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock(ctx)
//
// In Java a thread owns a lock. Go has no threads to name, so who holds a lock has a
// [Hold]: it alone unlocks, and locks again. Give it to others and they have it, too.
//
// A hold lasts until Unlock, as long as its process lives: its lease of 30 s is renewed every
// 10 s. If the process dies, the lock is free when the lease has run out. If Redis cannot be
// reached, [Hold.Context] ends before that: work that is under the lock should stop with
// it.
//
// # Which lock
//
//   - [Lock] keeps others out, as long as no process sleeps past its lease and no
//     failover forgets the lock. It is for work that is a waste if it is done twice, and
//     no disaster.
//   - [FencedLock] also gives each hold a number, by which a resource refuses a holder that
//     comes too late. This works even if a failover has forgotten the last hold, as long as
//     the servers' clocks agree.
//   - [FairLock] serves who waits in the order in which they came, across processes and
//     languages. It costs more.
//
// The kinds are not for one name: a FairLock does not see the waiters of a Lock. Lock and
// FencedLock may share a name, but a Lock draws no token. A lock and a limiter must not have
// the same name: both have it as their key. Such a lock is refused with ErrBadState.
//
// All three are a [Locker], which a test can fake with [FakeHold].
//
// Callers that wait sleep until Redis tells them that the lock was unlocked, or until its
// lease has run out; in one process they are served in their order. docs/lock.md has
// more: from Java to Go, what is cured, what no lock in Redis can promise.
package rlock

package rlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/rlock"
)

// A fakeLock is a Locker for tests that has at most one holder. Its hold is never nil.
type fakeLock struct {
	rlock.Locker // nil: a method that the test does not expect panics
	hold         *rlock.Hold
}

func (l *fakeLock) TryLock(ctx context.Context, _, _ time.Duration) (*rlock.Hold, bool, error) {
	if l.hold.Err() == nil {
		return nil, false, nil
	}
	l.hold, _ = rlock.FakeHold(ctx, 0)
	return l.hold, true, nil
}

// In a test, a fake stands for the lock of a service.
func ExampleLocker() {
	// The code to be tested. In the service, lock is a Lock.
	write := func(ctx context.Context, lock rlock.Locker) string {
		hold, ok, err := lock.TryLock(ctx, 0, 0)
		switch {
		case err != nil:
			return "no answer: " + err.Error()
		case !ok:
			return "another process writes the report"
		}
		defer hold.Unlock(ctx)
		return "the report is written"
	}

	ctx := context.Background()
	lock := &fakeLock{hold: new(rlock.Hold)} // the zero Hold is not held
	fmt.Println(write(ctx, lock))
	fmt.Println(write(ctx, lock))
	lock.hold, _ = rlock.FakeHold(ctx, 0) // another process has the lock
	fmt.Println(write(ctx, lock))
	// Output:
	// the report is written
	// the report is written
	// another process writes the report
}

// A test can take the lock away from the code that holds it.
func ExampleFakeHold() {
	ctx := context.Background()
	hold, lose := rlock.FakeHold(ctx, 0)
	fmt.Println(hold.Err())
	lose()
	<-hold.Context().Done()
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// <nil>
	// rlock: the lock is not held any more: it was lost
}

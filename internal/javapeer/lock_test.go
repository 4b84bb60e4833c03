package javapeer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var lockKinds = []javapeer.LockKind{javapeer.Reentrant, javapeer.Fenced, javapeer.Fair}

// locks connects an instance and calls spec with a lock of each kind and the names of
// two threads.
func locks(t *testing.T, spec func(t *testing.T, l *javapeer.Lock, rdb *redis.Client, a, b string)) {
	t.Helper()
	p := realPeer(t)
	server := redistest.Start(t)
	client, _ := connect(t, p, server.Addr)
	for _, kind := range lockKinds {
		t.Run(string(kind), func(t *testing.T) {
			l := p.Lock(client, "l-"+string(kind), kind)
			spec(t, l, server.Admin(), redistest.Name(t), redistest.Name(t))
		})
	}
}

// parked waits until a thread waits for a message.
func parked(t *testing.T, thread string) {
	t.Helper()
	redistest.Until(t, "a waiter", func() error {
		is, err := realPeer(t).Parked(t.Context(), thread)
		if err == nil && !is {
			err = errors.New("it is not parked")
		}
		return err
	})
}

// The same thread locks, locks again and unlocks.
func TestLockIsOfAThread(t *testing.T) {
	locks(t, func(t *testing.T, l *javapeer.Lock, rdb *redis.Client, a, b string) {
		ctx, is := soon(t), check(t)
		ok(t, "Lock", l.Lock(ctx, a))
		ok(t, "LockLease", l.LockLease(ctx, a, time.Minute))
		ok(t, "LockInterruptibly", l.LockInterruptibly(ctx, a))
		is("TryLock", true)(each(l.TryLock(ctx, a)))
		is("TryLockWait", true)(each(l.TryLockWait(ctx, a, time.Second)))
		is("TryLockLease", true)(each(l.TryLockLease(ctx, a, time.Second, time.Hour)))
		is("TryLock of another", false)(each(l.TryLock(ctx, b)))
		is("TryLockWait of another", false)(each(l.TryLockWait(ctx, b, 0)))
		is("TryLockLease of another", false)(each(l.TryLockLease(ctx, b, time.Millisecond, time.Hour)))
		ttl, err := l.RemainTimeToLive(ctx)
		if err != nil || ttl <= time.Minute.Milliseconds() || ttl > time.Hour.Milliseconds() {
			t.Errorf("RemainTimeToLive: %d, %v", ttl, err)
		}

		is("HoldCount", int64(6))(each(l.HoldCount(ctx, a)))
		is("HoldCount of another", int64(0))(each(l.HoldCount(ctx, b)))
		is("HeldByCurrent", true)(each(l.HeldByCurrent(ctx, a)))
		is("HeldByCurrent of another", false)(each(l.HeldByCurrent(ctx, b)))
		is("HeldBy", true)(each(l.HeldBy(ctx, a)))
		is("HeldBy another", false)(each(l.HeldBy(ctx, b)))
		is("IsLocked", true)(each(l.IsLocked(ctx)))
		owner, err := l.Owner(ctx, a)
		ok(t, "Owner", err)
		key := "l-" + strings.TrimPrefix(t.Name(), "TestLockIsOfAThread/")
		is("field of "+owner, "6")(each(rdb.HGet(ctx, key, owner).Result()))

		for range 6 {
			ok(t, "Unlock", l.Unlock(ctx, a))
		}
		is("IsLocked after Unlock", false)(each(l.IsLocked(ctx)))
		ok(t, "Lock of another", l.Lock(ctx, b))
		is("ForceUnlock", true)(each(l.ForceUnlock(ctx)))
		is("ForceUnlock again", false)(each(l.ForceUnlock(ctx)))
		ok(t, "Lock after ForceUnlock", l.Lock(ctx, b))
		is("Delete", true)(each(l.Delete(ctx)))
		is("IsLocked after Delete", false)(each(l.IsLocked(ctx)))
	})
}

// What Redisson throws at a thread that does not hold the lock comes back.
func TestUnlockOfAnother(t *testing.T) {
	locks(t, func(t *testing.T, l *javapeer.Lock, _ *redis.Client, a, b string) {
		ok(t, "Lock", l.Lock(soon(t), a))
		owner, err := l.Owner(soon(t), b)
		ok(t, "Owner", err)
		node, thread, _ := strings.Cut(owner, ":")
		var e *javapeer.Error
		if err := l.Unlock(soon(t), b); !errors.As(err, &e) ||
			e.Type != "java.lang.IllegalMonitorStateException" ||
			!strings.Contains(e.Message, node) || !strings.HasSuffix(e.Message, thread) {
			t.Errorf("Unlock: %v; want the owner %s in it", err, owner)
		}
	})
}

// A call that is started is waited for later, more than once.
func TestStartedLock(t *testing.T) {
	locks(t, func(t *testing.T, l *javapeer.Lock, _ *redis.Client, a, b string) {
		ctx, is := soon(t), check(t)
		ok(t, "Lock", l.Lock(ctx, a))
		is("StartTryLock", false)(each(l.StartTryLock(b, time.Millisecond).Wait(ctx)))
		started := l.StartLock(b)
		parked(t, b)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := started.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		is("HeldBy a waiter", false)(each(l.HeldBy(ctx, b)))
		ok(t, "Unlock", l.Unlock(ctx, a))
		for range 2 {
			is("Wait", nil)(each(started.Wait(ctx)))
		}
		is("HeldByCurrent", true)(each(l.HeldByCurrent(ctx, b)))
		is("StartTryLockLease", true)(each(l.StartTryLockLease(b, time.Second, time.Hour).Wait(ctx)))
		is("StartTryLockAsync", true)(each(l.StartTryLockAsync(b, time.Second, time.Hour).Wait(ctx)))
		refused := l.StartTryLockAsync(a, time.Millisecond, time.Hour)
		is("StartTryLockAsync of another", false)(each(refused.Wait(ctx)))
		is("StartLockLease", nil)(each(l.StartLockLease(b, time.Hour).Wait(ctx)))
		is("HoldCount", int64(4))(each(l.HoldCount(ctx, b)))
	})
}

func TestInterrupt(t *testing.T) {
	locks(t, func(t *testing.T, l *javapeer.Lock, _ *redis.Client, a, b string) {
		p := realPeer(t)
		ok(t, "Lock", l.Lock(soon(t), a))
		check(t)("Parked", false)(each(p.Parked(soon(t), b)))
		ok(t, "Interrupt of nothing", p.Interrupt(soon(t), b))
		started := l.StartLockInterruptibly(b)
		parked(t, b)
		ok(t, "Interrupt", p.Interrupt(soon(t), b))
		var e *javapeer.Error
		_, err := started.Wait(soon(t))
		if !errors.As(err, &e) || e.Type != "java.lang.InterruptedException" {
			t.Errorf("Wait: %v", err)
		}
		ok(t, "Unlock", l.Unlock(soon(t), a))
	})
}

func TestTokens(t *testing.T) {
	p, ctx, is := realPeer(t), soon(t), check(t)
	server := redistest.Start(t)
	client, _ := connect(t, p, server.Addr, javapeer.LockWatchdogTimeout(time.Minute))
	l, a, b := p.Lock(client, "f", javapeer.Fenced), redistest.Name(t), redistest.Name(t)
	token := func(n int64) *int64 { return &n }

	is("Token of none", int64(0))(each(l.Token(ctx)))
	is("LockAndGetToken", int64(1))(each(l.LockAndGetToken(ctx, a)))
	ttl, err := l.RemainTimeToLive(ctx)
	if err != nil || ttl <= 30_000 || ttl > 60_000 {
		t.Errorf("the lease of the watchdog: %d, %v", ttl, err)
	}
	is("LockAndGetTokenLease", int64(2))(each(l.LockAndGetTokenLease(ctx, a, time.Hour)))
	is("TryLockAndGetToken", token(3))(each(l.TryLockAndGetToken(ctx, a, time.Second)))
	is("TryLockAndGetTokenLease", token(4))(each(l.TryLockAndGetTokenLease(ctx, a, time.Second, time.Hour)))
	is("Token", int64(4))(each(l.Token(ctx)))
	is("TryLockAndGetToken of another", (*int64)(nil))(each(l.TryLockAndGetToken(ctx, b, 0)))
	refused := l.StartTryLockAndGetToken(b, 0)
	is("StartTryLockAndGetToken", (*int64)(nil))(each(refused.Wait(ctx)))

	started := l.StartLockAndGetToken(b)
	is("ForceUnlock", true)(each(l.ForceUnlock(ctx)))
	is("StartLockAndGetToken", int64(5))(each(started.Wait(ctx)))
}

// What a kind or a version lacks is an error, not a guess.
func TestLockErrors(t *testing.T) {
	p, server := realPeer(t), redistest.Start(t)
	client, _ := connect(t, p, server.Addr, javapeer.FairLockWaitTimeout(time.Second))
	_, unknown := p.Lock(client, "l", "spin").IsLocked(soon(t))
	_, plain := p.Lock(client, "l", javapeer.Reentrant).Token(soon(t))
	for _, err := range []error{unknown, plain} {
		var e *javapeer.Error
		if !errors.As(err, &e) || e.Type != "java.lang.IllegalArgumentException" {
			t.Errorf("error %v", err)
		}
	}
}

// The threads of a crowd take turns, and those of two instances do, too.
func TestLockCrowd(t *testing.T) {
	p := realPeer(t)
	server := redistest.Start(t)
	one, _ := connect(t, p, server.Addr)
	two, _ := connect(t, p, server.Addr)
	for _, kind := range lockKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			counter, ctx := redistest.Name(t), soon(t)
			before := time.Now().Truncate(time.Microsecond)
			o := javapeer.LockCrowdOptions{
				Threads: 4, Rounds: 10, Counter: counter, Clients: []string{one, two},
			}
			r, err := p.Lock(one, redistest.Name(t), kind).StartCrowd(o).Wait(ctx)
			if err != nil || r.Rounds != 40 || len(r.Errors) > 0 || len(r.Holds) != 40 {
				t.Fatalf("%+v, %v", r, err)
			}
			if n, err := server.Admin().Get(ctx, counter).Int(); n != 40 || err != nil {
				t.Errorf("the counter is %d, %v", n, err)
			}
			apart(t, r.Holds, before)
			if r.Seconds <= 0 || r.PerSecond <= 0 || r.P50us <= 0 || r.P99us < r.P50us || r.P999us < r.P99us {
				t.Errorf("%+v", r)
			}
		})
	}
}

// apart expects each hold to begin after the one before it.
func apart(t *testing.T, holds []javapeer.Hold, before time.Time) {
	t.Helper()
	for _, h := range holds {
		if h.From.Before(before) || h.To.Before(h.From) || h.To.After(time.Now()) {
			t.Errorf("hold %v to %v, asked since %v", h.From, h.To, before)
		}
		before = h.To
	}
}

// A crowd counts what is thrown, and goes on.
func TestLockCrowdGoesOn(t *testing.T) {
	p, server := realPeer(t), redistest.Start(t)
	client, _ := connect(t, p, server.Addr)
	ok(t, "Set", server.Admin().Set(t.Context(), "c", "none", 0).Err())
	l := p.Lock(client, "l", javapeer.Reentrant)
	o := javapeer.LockCrowdOptions{Rounds: 2, Counter: "c", Lease: time.Minute}
	r, err := l.StartCrowd(o).Wait(soon(t))
	total := 0
	for _, n := range r.Errors {
		total += n
	}
	if err != nil || r.Rounds != 0 || total != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	check(t)("IsLocked", false)(each(l.IsLocked(soon(t))))
}

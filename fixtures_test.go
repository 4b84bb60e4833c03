package rratelimiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// patience bounds every wait for something that must come. It is reached only by
// tests that fail.
const patience = 10 * time.Second

// until waits for something to become true.
func until(t *testing.T, is func() bool) {
	t.Helper()
	untilWithin(t, patience, is)
}

// untilWithin is until with a limit of its own.
func untilWithin(t *testing.T, limit time.Duration, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("did not come true within %v", limit)
		}
	}
}

// comes returns what a channel has within the patience of a test.
func comes[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-from:
	case <-timer.C:
		t.Fatalf("nothing has come within %v", patience)
	}
	return v
}

// noError fails the test on an error. In a goroutine it must not be called: it
// ends the goroutine, and not the test.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// yes returns an error unless a call has returned true.
func yes(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("false, want true")
	}
	return err
}

// no returns an error unless a call has returned false.
func no(ok bool, err error) error {
	if err == nil && ok {
		err = errors.New("true, want false")
	}
	return err
}

// wantText expects an error to name what is wrong.
func wantText(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}

// methods are all that answer an error. A method that is not among them would
// be tested for nothing; TestMethodsAreAll sees to it.
var methods = map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
	"TrySetRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.TrySetRate(ctx, overall, 1, time.Second))
	},
	"SetRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return l.SetRate(ctx, overall, 1, time.Second)
	},
	"UpdateRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.UpdateRate(ctx, overall, 1, time.Second))
	},
	"TryAcquire": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.TryAcquire(ctx, 1, 0))
	},
	"Acquire": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return l.Acquire(ctx, 1)
	},
	"Allow": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Allow(ctx, 1))
	},
	"Peek": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Peek(ctx))
	},
	"Release": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return l.Release(ctx, 1)
	},
	"Repair": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Repair(ctx))
	},
	"AvailablePermits": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.AvailablePermits(ctx))
	},
	"Config": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Config(ctx))
	},
	"Delete": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Delete(ctx))
	},
	"Exists": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Exists(ctx))
	},
	"Rename": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return l.Rename(ctx, "other")
	},
	"Expire": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.Expire(ctx, time.Hour))
	},
	"ExpireAt": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
	},
	"ExpireIfSet": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ExpireIfSet(ctx, time.Hour))
	},
	"ExpireIfNotSet": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ExpireIfNotSet(ctx, time.Hour))
	},
	"ExpireIfGreater": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ExpireIfGreater(ctx, time.Hour))
	},
	"ExpireIfLess": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ExpireIfLess(ctx, time.Hour))
	},
	"ClearExpire": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ClearExpire(ctx))
	},
	"RemainTimeToLive": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.RemainTimeToLive(ctx))
	},
	"ExpireTime": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return errOf(l.ExpireTime(ctx))
	},
	"OnExpired": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return stopped(l.OnExpired(ctx, func(string) {}))
	},
	"OnDeleted": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return stopped(l.OnDeleted(ctx, func(string) {}))
	},
}

func stopped(stop func(), err error) error {
	if stop != nil {
		stop()
	}
	return err
}

// everything calls each method that answers an error.
func everything(ctx context.Context, l *rratelimiter.RateLimiter) map[string]error {
	errs := make(map[string]error)
	for name, call := range methods {
		errs[name] = call(ctx, l)
	}
	return errs
}

const (
	overall   = rratelimiter.Overall
	perClient = rratelimiter.PerClient
)

// timeLimit returns a context that ends after d.
func timeLimit(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// The specs on a real server tell the faults they are about, which are seconds,
// from what a busy machine adds. Those in fake time are exact.
const slack = 2 * time.Second

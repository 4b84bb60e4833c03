package rratelimiter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(withExamples{m}) }

// until waits for something to become true.
func until(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("did not come true within 10 s")
		}
	}
}

// untilWithin is until with a time of its own.
func untilWithin(t *testing.T, limit time.Duration, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("did not come true within %v", limit)
		}
	}
}

// is expects no error.
func is(t *testing.T, _ any, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
		return second(l.TrySetRate(ctx, overall, 1, time.Second))
	},
	"SetRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return l.SetRate(ctx, overall, 1, time.Second)
	},
	"UpdateRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return second(l.UpdateRate(ctx, overall, 1, time.Second))
	},
	"TryAcquire":       func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.TryAcquire(ctx, 1, 0)) },
	"Acquire":          func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Acquire(ctx, 1) },
	"Allow":            func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Allow(ctx, 1)) },
	"Peek":             func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Peek(ctx)) },
	"Release":          func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Release(ctx, 1) },
	"Repair":           func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Repair(ctx)) },
	"AvailablePermits": func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.AvailablePermits(ctx)) },
	"Config":           func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Config(ctx)) },
	"Delete":           func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Delete(ctx)) },
	"Exists":           func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Exists(ctx)) },
	"Rename":           func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Rename(ctx, "other") },
	"Expire":           func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.Expire(ctx, time.Hour)) },
	"ExpireAt": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return second(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
	},
	"ExpireIfSet": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return second(l.ExpireIfSet(ctx, time.Hour))
	},
	"ExpireIfNotSet": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return second(l.ExpireIfNotSet(ctx, time.Hour))
	},
	"ExpireIfGreater": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return second(l.ExpireIfGreater(ctx, time.Hour))
	},
	"ExpireIfLess": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return second(l.ExpireIfLess(ctx, time.Hour))
	},
	"ClearExpire":      func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.ClearExpire(ctx)) },
	"RemainTimeToLive": func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.RemainTimeToLive(ctx)) },
	"ExpireTime":       func(ctx context.Context, l *rratelimiter.RateLimiter) error { return second(l.ExpireTime(ctx)) },
	"OnExpired": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return stopped(l.OnExpired(ctx, func(string) {}))
	},
	"OnDeleted": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
		return stopped(l.OnDeleted(ctx, func(string) {}))
	},
}

func second[T any](_ T, err error) error { return err }

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

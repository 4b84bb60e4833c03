package input_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Bad arguments are refused at the door: the error names the argument, its
// value and the bound, and nothing is written.
func TestBadArgumentsAreNamedAndWriteNothing(t *testing.T) {
	rate := func(typ rratelimiter.RateType, rate int64, interval time.Duration,
		opts ...rratelimiter.RateOption) func(context.Context, *rratelimiter.RateLimiter) error {
		return func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.TrySetRate(ctx, typ, rate, interval, opts...)
			_, err2 := l.UpdateRate(ctx, typ, rate, interval, opts...)
			return sameErrors(err, l.SetRate(ctx, typ, rate, interval, opts...), err2)
		}
	}
	acquire := func(n int64) func(context.Context, *rratelimiter.RateLimiter) error {
		return func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.TryAcquire(ctx, n, 0)
			_, err2 := l.TryAcquire(ctx, n, time.Hour)
			_, err3 := l.Allow(ctx, n)
			return sameErrors(err, err2, err3, l.Acquire(ctx, n))
		}
	}
	cases := []struct {
		name string
		ask  func(context.Context, *rratelimiter.RateLimiter) error
		text []string
	}{
		{"type", rate(7, 1, time.Second), []string{"type", "RateType(7)", "Overall", "PerClient"}},
		{"rate 0", rate(Overall, 0, time.Second), []string{"rate is 0", "between 1 and"}},
		{"rate below 0", rate(Overall, -3, time.Second), []string{"rate is -3"}},
		{"rate above 2^53", rate(Overall, 1<<53+1, time.Second),
			[]string{"rate is 9007199254740993", "2^53"}},
		{"interval 0", rate(Overall, 1, 0), []string{"interval is 0s", "1ms"}},
		{"interval below 1 ms", rate(Overall, 1, 999*time.Microsecond), []string{"interval is 999", "1ms"}},
		{"keep alive below the interval", rate(Overall, 1, time.Second,
			rratelimiter.WithKeepAlive(999*time.Millisecond)),
			[]string{"keepAlive is 999ms", "1s"}},
		{"keep alive below 0", rate(Overall, 1, time.Second, rratelimiter.WithKeepAlive(-1)),
			[]string{"keepAlive is -1ns"}},
		{"permits 0", acquire(0), []string{"permits is 0", "between 1"}},
		{"permits below 0", acquire(-1), []string{"permits is -1", "between 1"}},
		{"permits above 2^40", acquire(1<<40 + 1), []string{"permits is 1099511627777", "2^40"}},
		{"release below 0", func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return l.Release(ctx, -1)
		},
			[]string{"permits is -1", "between 0"}},
		{"new name", func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return l.Rename(ctx, "")
		},
			[]string{`newName is "", must not be empty`}},
		{"nil option", rate(Overall, 1, time.Second, rratelimiter.WithKeepState(), nil),
			[]string{"opts[1] is nil, must be a RateOption"}},
		{"nil listener", func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.OnExpired(ctx, nil)
			_, err2 := l.OnDeleted(ctx, nil)
			return sameErrors(err, err2)
		}, []string{"f is nil, must be a function"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m := redistest.Mini(t)
			b := NewBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
			l := b.NewLimiter(Overall, 10, time.Second)
			l.Takes(4)
			before := m.Dump()
			err := tc.ask(t.Context(), l.RateLimiter)
			if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
				t.Errorf("%v, want ErrInvalidArgument", err)
			}
			WantText(t, err, append(tc.text, "invalid argument for "+strconv.Quote(l.Name())+": ")...)
			if after := m.Dump(); after != before {
				t.Errorf("written:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// sameErrors returns the error that several calls have answered; one that
// differs shows.
func sameErrors(errs ...error) error {
	for i, err := range errs {
		if !errors.Is(err, rratelimiter.ErrInvalidArgument) || err.Error() != errs[0].Error() {
			return fmt.Errorf("call %d of %d: %v", i, len(errs), err)
		}
	}
	return errs[0]
}

func TestMethodsAreAll(t *testing.T) {
	local := []string{"Name", "String", "Validate", "WithFallback", "WithRate"} // these never call Redis
	for method := range reflect.TypeFor[*rratelimiter.RateLimiter]().Methods() {
		if _, ok := Methods[method.Name]; !ok && !slices.Contains(local, method.Name) {
			t.Errorf("%s is not among the methods", method.Name)
		}
	}
}

func TestEveryMethodRefusesWhatItWasMadeWith(t *testing.T) {
	m := redistest.Mini(t)
	rdb := redistest.MiniClient(t, m)
	var none *redis.Client
	var nothing redis.UniversalClient
	mapped := rratelimiter.WithNameMapper(func(string) string { return "" })
	auto, err := rdb.AutoPipeline()
	NoError(t, err)
	defer auto.Close()
	newWith := func(rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.RateLimiter {
		c := rratelimiter.New(rdb, opts...)
		t.Cleanup(func() { _ = c.Close() })
		return c.RateLimiter("a")
	}
	for name, tc := range map[string]struct {
		limiter *rratelimiter.RateLimiter
		text    string // behind the sentinel's
	}{
		"nil client":        {newWith(nothing), "of New: rdb is nil, must be a go-redis client"},
		"nil *redis.Client": {newWith(none), "of New: rdb is nil, must be a go-redis client"},
		"AutoPipeliner": {newWith(auto), "of New: rdb is an AutoPipeliner, " +
			"must be embedded beside its client: docs/algorithms.md, Many callers"},
		"nil option": {newWith(rdb, nil), "of New: opts[0] is nil, must be an Option"},
		"nil among options": {newWith(rdb, rratelimiter.WithID("x"), nil, nil),
			"of New: opts[1] is nil, must be an Option"},
		"nil name mapper": {newWith(rdb, rratelimiter.WithNameMapper(nil)),
			"of New: mapName is nil, must be a function"},
		"empty ID": {newWith(rdb, rratelimiter.WithID("")),
			`of New: id is "", must be a text without braces`},
		"ID with a hash tag": {newWith(rdb, rratelimiter.WithID("{b}")),
			`of New: id is "{b}", must be a text without braces`},
		"empty name": {rratelimiter.New(rdb).RateLimiter(""),
			`for "": name is "", must not be empty`},
		"name mapped away": {newWith(rdb, mapped),
			`for "a": name is "a", mapped to "", must not be mapped to an empty name`},
	} {
		t.Run(name, func(t *testing.T) {
			for method, err := range CallAll(t.Context(), tc.limiter) {
				if want := "rratelimiter: invalid argument " + tc.text; !errors.Is(err,
					rratelimiter.ErrInvalidArgument) || err.Error() != want {
					t.Errorf("%s: %v, want %s", method, err, want)
				}
			}
		})
	}
	if keys := m.Keys(); len(keys) != 0 {
		t.Errorf("written: %q", keys)
	}
}

func TestEveryMethodRefusesAClosedClient(t *testing.T) {
	m := redistest.Mini(t)
	c := rratelimiter.New(redistest.MiniClient(t, m))
	l := c.RateLimiter("a")
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	for method, err := range CallAll(t.Context(), l) {
		if !errors.Is(err, rratelimiter.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", method, err)
		}
	}
	if keys := m.Keys(); len(keys) != 0 {
		t.Errorf("written: %q", keys)
	}
}

func TestEveryMethodRefusesAnEndedContext(t *testing.T) {
	m := redistest.Mini(t)
	l := rratelimiter.New(redistest.MiniClient(t, m)).RateLimiter("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, err := range CallAll(ctx, l) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", method, err)
		}
	}
	if keys := m.Keys(); len(keys) != 0 {
		t.Errorf("written: %q", keys)
	}
}

func TestWhereNoRateIsSetCallsSaySo(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx, l := b.Context(), b.NewLimiter(Overall, 0, 0)
		_, tryErr := l.TryAcquire(ctx, 1, time.Hour)
		_, peekErr := l.Peek(ctx)
		_, configErr := l.Config(ctx)
		for name, err := range map[string]error{
			"TryAcquire": tryErr, "Acquire": l.Acquire(ctx, 1), "Peek": peekErr, "Config": configErr,
			"Release": l.Release(ctx, 1),
		} {
			if !errors.Is(err, rratelimiter.ErrNotInitialized) {
				b.Errorf("%s: %v, want ErrNotInitialized", name, err)
			}
			WantText(b, err, fmt.Sprintf("rratelimiter: no rate is set for %q (see TrySetRate)", l.Name()))
		}
		b.Want(l.Release(ctx, 0)) // does nothing, as in Java
		ok, err := l.UpdateRate(ctx, Overall, 5, time.Second)
		if ok || err != nil {
			b.Errorf("UpdateRate: %v, %v; want false", ok, err)
		}
		for name, ask := range map[string]func(context.Context) (bool, error){
			"Delete": l.Delete, "Exists": l.Exists, "ClearExpire": l.ClearExpire,
			"Expire": func(ctx context.Context) (bool, error) { return l.Expire(ctx, time.Hour) },
		} {
			if ok, err := ask(ctx); ok || err != nil {
				b.Errorf("%s: %v, %v; want false", name, ok, err)
			}
		}
		if ttl, err := l.RemainTimeToLive(ctx); ttl != rratelimiter.NoLimiter || err != nil {
			b.Errorf("RemainTimeToLive: %v, %v", ttl, err)
		}
		l.EndsAt(time.Time{})
		if keys := b.Look.Keys(ctx, "*").Val(); len(keys) != 0 {
			b.Errorf("written: %q", keys)
		}
	})
}

func TestMoreThanTheRateIsRefusedAtOnce(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 5, time.Second)
		l.Takes(2)
		before := l.Dump()
		_, err := l.TryAcquire(b.Context(), 6, time.Hour)
		if !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			b.Fatal(err)
		}
		WantText(b, err, fmt.Sprintf("permits exceed the rate of %q: permits is 6, must be at most 5",
			l.Name()))
		if after := l.Dump(); after != before {
			b.Fatalf("written:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// A key of another kind in the way is named, and nothing is written.
func TestAKeyOfAnotherKindIsNamed(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		for i, kind := range []string{"hash", "string", "zset"} {
			l := b.NewLimiter(Overall, 5, time.Second)
			l.Takes(1)
			key := []string{l.Name(), l.ValueKey(), l.PermitsKey()}[i]
			b.Want(b.Look.Del(ctx, key).Err())
			b.Want(b.Look.RPush(ctx, key, "x").Err())
			_, acquireErr := l.TryAcquire(ctx, 1, 0)
			_, peekErr := l.Peek(ctx)
			errs := map[string]error{"acquire": acquireErr, "peek": peekErr, "release": l.Release(ctx, 1)}
			if kind == "hash" {
				_, errs["config"] = l.Config(ctx)
				_, errs["try set"] = l.TrySetRate(ctx, Overall, 5, time.Second)
				errs["set"] = l.SetRate(ctx, Overall, 5, time.Second)
				_, errs["expire"] = l.Expire(ctx, time.Hour)
			}
			for name, err := range errs {
				if !errors.Is(err, rratelimiter.ErrBadState) {
					b.Errorf("%s with a list at %s: %v, want ErrBadState", name, key, err)
				}
				WantText(b, err,
					fmt.Sprintf("unreadable state in Redis for %q: key %s is a list, must be a %s", l.Name(),
						key, kind))
			}
			if n := b.Look.LLen(ctx, key).Val(); n != 1 {
				b.Errorf("the list at %s was written over", key)
			}
		}
	})
}

func TestConfigThatCannotBeReadIsAnError(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, field := range []struct{ name, value string }{{"rate", "x"}, {"interval", "1e3"},
			{"type", "2"}, {"keepAliveTime", "-"}} {
			l := b.NewLimiter(Overall, 5, time.Second)
			b.Want(b.Look.HSet(b.Context(), l.Name(), field.name, field.value).Err())
			_, err := l.Config(b.Context())
			if !errors.Is(err, rratelimiter.ErrBadState) {
				b.Errorf("%s %s: %v, want ErrBadState", field.name, field.value, err)
			}
			WantText(b, err, fmt.Sprintf("for %q: field %s of key %s is %q, must be ", l.Name(), field.name,
				l.Name(), field.value))
		}
	})
}

// No clock is the server's; a Client that was given none must not fail at its
// first call.
func TestNoClockIsTheServers(t *testing.T) {
	m := redistest.Mini(t)
	m.ClockTTL(false)
	m.SetTime(time.UnixMilli(1_700_000_000_123))
	rdb := redistest.MiniClient(t, m)
	c := rratelimiter.New(rdb, rratelimiter.WithClock(time.Now), rratelimiter.WithClock(nil))
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter("a")
	if err := errors.Join(l.SetRate(t.Context(), Overall, 5, time.Hour),
		l.Acquire(t.Context(), 1)); err != nil {
		t.Fatal(err)
	}
	if at := rdb.ZRangeWithScores(t.Context(), "{a}:permits", 0, -1).Val()[0].Score; at != 1_700_000_000_123 {
		t.Errorf("the record is of %v, want the server's time", at)
	}
}

package input_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

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
			return sameErrors(err, err2, err3, l.Acquire(ctx, n), ErrOf(l.Charge(ctx, n)),
				ErrOf(l.Reserve(ctx, n, 0)))
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
			WantErr(t, err, rratelimiter.ErrInvalidArgument,
				append(tc.text, "invalid argument for "+strconv.Quote(l.Name())+": ")...)
			if after := m.Dump(); after != before {
				t.Errorf("written:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// sameErrors returns the error that several calls have returned; one that differs shows.
func sameErrors(errs ...error) error {
	for i, err := range errs {
		if !errors.Is(err, rratelimiter.ErrInvalidArgument) || err.Error() != errs[0].Error() {
			return fmt.Errorf("call %d of %d: %v", i, len(errs), err)
		}
	}
	return errs[0]
}

// An option that a call would ignore is refused: each RateOption with each call.
func TestOptionsThatACallIgnoresAreRefused(t *testing.T) {
	options := map[string]rratelimiter.RateOption{
		"WithKeepAlive": rratelimiter.WithKeepAlive(time.Hour),
		"WithKeepState": rratelimiter.WithKeepState(),
		"WithKeepRate":  rratelimiter.WithKeepRate(),
	}
	type call func(context.Context, *Limiter, ...rratelimiter.RateOption) error
	calls := map[string]call{
		"TrySetRate": func(ctx context.Context, l *Limiter, opts ...rratelimiter.RateOption) error {
			return ErrOf(l.TrySetRate(ctx, Overall, 5, time.Second, opts...))
		},
		"SetRate": func(ctx context.Context, l *Limiter, opts ...rratelimiter.RateOption) error {
			return l.SetRate(ctx, Overall, 5, time.Second, opts...)
		},
		"UpdateRate": func(ctx context.Context, l *Limiter, opts ...rratelimiter.RateOption) error {
			return ErrOf(l.UpdateRate(ctx, Overall, 5, time.Second, opts...))
		},
		"Keyed": func(ctx context.Context, l *Limiter, opts ...rratelimiter.RateOption) error {
			return ErrOf(l.Client.Keyed(l.Name(), 5, time.Second, opts...).For("key").Allow(ctx, 1))
		},
		"WithRate": func(ctx context.Context, l *Limiter, opts ...rratelimiter.RateOption) error {
			return ErrOf(l.RateLimiter.WithRate(5, time.Second, opts...).Allow(ctx, 1))
		},
	}
	bounds := map[string]string{
		"TrySetRate WithKeepState": "SetRate or UpdateRate", "Keyed WithKeepState": "SetRate or UpdateRate",
		"WithRate WithKeepState": "SetRate or UpdateRate", "TrySetRate WithKeepRate": "Keyed or WithRate",
		"SetRate WithKeepRate": "Keyed or WithRate", "UpdateRate WithKeepRate": "Keyed or WithRate",
	}
	for of, ask := range calls {
		for option, opt := range options {
			t.Run(of+" "+option, func(t *testing.T) {
				m := redistest.Mini(t)
				b := NewBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
				l := b.NewLimiter(Overall, 10, time.Second)
				before, err := m.Dump(), ask(t.Context(), l, opt)
				bound, refused := bounds[of+" "+option]
				if !refused {
					NoError(t, err)
					return
				}
				WantErr(t, err, rratelimiter.ErrInvalidArgument, strconv.Quote(l.Name()),
					option+" is given to "+of+", must be given to "+bound)
				if after := m.Dump(); after != before {
					t.Errorf("written:\n%s\nbefore:\n%s", after, before)
				}
			})
		}
	}
}

func TestMethodsAreAll(t *testing.T) {
	// These never call Redis.
	local := []string{"Name", "String", "Validate", "WithFallback", "WithLease", "WithRate"}
	for method := range reflect.TypeFor[*rratelimiter.RateLimiter]().Methods() {
		if _, ok := Methods[method.Name]; !ok && !slices.Contains(local, method.Name) {
			t.Errorf("%s is not among the methods", method.Name)
		}
	}
}

// Each option that makes no sense is refused by its name, its value and its bound.
func TestEveryMethodRefusesWhatItWasMadeWith(t *testing.T) {
	m := redistest.Mini(t)
	rdb := redistest.MiniClient(t, m, func(o *redis.Options) { o.ReadTimeout = time.Second })
	var none *redis.Client
	var nothing redis.UniversalClient
	mapped := rratelimiter.WithNameMapper(func(string) string { return "" })
	auto, err := rdb.AutoPipeline()
	NoError(t, err)
	defer auto.Close()
	newWith := func(rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.RateLimiter {
		return NewClient(t, rdb, opts...).RateLimiter("a")
	}
	limiters := map[string]*rratelimiter.RateLimiter{
		"of New: rdb is nil, must be a go-redis client": newWith(nothing),
		"of New: rdb is an AutoPipeliner, " +
			"must be its client, which sends pipelines itself": newWith(auto),
		"of New: opts[1] is nil, must be an Option": newWith(rdb, rratelimiter.WithID("x"), nil,
			nil),
		`for "a": name is "a", mapped to "", must not be mapped to an empty name`: newWith(rdb, mapped),
	}
	const fallback, share, n, timeout = "must be one of the Fallback constants",
		"must be more than 0 and at most 1", "n of WithMinReplicas is ", "timeout of WithMinReplicas is "
	leases := func(longest time.Duration, share float64) *rratelimiter.RateLimiter {
		return newWith(rdb, rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: longest, Share: share}))
	}
	limiters["of New: Max of WithLease is 1ms, must be 0 or at least 5ms"] = leases(time.Millisecond, 0)
	limiters["of New: Share of WithLease is 2, "+share+", or 0 for the default"] = leases(time.Second, 2)
	limiters["of New: "+timeout+"250ms, must be less than the budget, which is 250ms"] = newWith(rdb,
		rratelimiter.WithFallback(rratelimiter.FallbackDeny), rratelimiter.WithMinReplicas(1, time.Second/4))
	for text, opt := range map[string]rratelimiter.Option{
		"opts[0] is nil, must be an Option":               nil,
		"mapName is nil, must be a function":              rratelimiter.WithNameMapper(nil),
		`id is "", must be a text without braces`:         rratelimiter.WithID(""),
		`id is "{b}", must be a text without braces`:      rratelimiter.WithID("{b}"),
		"fallback is 9, " + fallback:                      rratelimiter.WithFallback(9),
		"fallback is -1, " + fallback:                     rratelimiter.WithFallback(-1),
		"budget is 0s, must be at least 1ms":              rratelimiter.WithBudget(0),
		"budget is -1s, must be at least 1ms":             rratelimiter.WithBudget(-time.Second),
		"budget is 1µs, must be at least 1ms":             rratelimiter.WithBudget(time.Microsecond),
		"share is 0, " + share:                            rratelimiter.WithLocalShare(0),
		"share is 1.5, " + share:                          rratelimiter.WithLocalShare(1.5),
		"share is NaN, " + share:                          rratelimiter.WithLocalShare(math.NaN()),
		"longest is 999.999µs, must be 0 or at least 1ms": rratelimiter.WithRefusalCache(999_999),
		n + "0, must be at least 1":                       rratelimiter.WithMinReplicas(0, time.Second/2),
		n + "-1, must be at least 1":                      rratelimiter.WithMinReplicas(-1, time.Second/2),
		timeout + "0s, must be at least 1ms":              rratelimiter.WithMinReplicas(1, 0),
		timeout + "999µs, must be at least 1ms":           rratelimiter.WithMinReplicas(1, 999_000),
		timeout + "1s, must be less than the ReadTimeout of rdb, which is 1s": rratelimiter.WithMinReplicas(1,
			time.Second),
	} {
		limiters["of New: "+text] = newWith(rdb, opt)
	}
	for _, version := range []string{"", "3", "3.16", "3.13.2", "2.15.2", "3.16.4-SNAPSHOT", "newest"} {
		text := fmt.Sprintf("of New: version of WithRedisson is %q, "+
			"must be a release of three numbers, 3.13.3 or later", version)
		limiters[text] = newWith(rdb, rratelimiter.WithRedisson(version))
	}
	maps.Copy(limiters, withBadRates(NewClient(t, rdb)))
	for text, limiter := range limiters {
		for method, err := range CallAll(t.Context(), limiter) {
			if want := "rratelimiter: invalid argument " + text; !errors.Is(err,
				rratelimiter.ErrInvalidArgument) || err.Error() != want {
				t.Errorf("%s: %v, want %s", method, err, want)
			}
		}
	}
	if err := ErrOf(newWith(none).Peek(t.Context())); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
		t.Errorf("a nil *redis.Client: %v", err)
	}
	seven := newWith(rdb).WithFallback(7)
	WantErr(t, ErrOf(seven.TryAcquire(t.Context(), 1, 0)), rratelimiter.ErrInvalidArgument,
		`for "a": fallback is 7`)
	short := newWith(rdb).WithLease(rratelimiter.LeaseOptions{Max: time.Millisecond})
	WantErr(t, ErrOf(short.TryAcquire(t.Context(), 1, 0)), rratelimiter.ErrInvalidArgument,
		`for "a": Max of WithLease is 1ms`)
	if keys := m.Keys(); len(keys) != 0 {
		t.Errorf("written: %q", keys)
	}
}

// withBadRates returns limiters of a Keyed, and with a rate of their own, by what is wrong with them.
func withBadRates(c *rratelimiter.Client) map[string]*rratelimiter.RateLimiter {
	const second, rate = time.Second, ", must be between 1 and 9007199254740992 (2^53)"
	const keep = "keepAlive is 1m0s, must be 0 or at least the interval, 1h0m0s"
	const opts = "opts[0] is nil, must be a RateOption"
	l, users, minute := c.RateLimiter("l"), c.Keyed("t", 1, second), rratelimiter.WithKeepAlive(time.Minute)
	return map[string]*rratelimiter.RateLimiter{
		`for "": name is "", must not be empty`:         c.Keyed("", 1, second).For("k"),
		`for "t": rate is 0` + rate:                     c.Keyed("t", 0, second).For("k"),
		`for "t": interval is 0s, must be at least 1ms`: c.Keyed("t", 1, 0).For("k"),
		`for "t": ` + keep:                              c.Keyed("t", 1, time.Hour, minute).For("k"),
		`for "t": ` + opts:                              c.Keyed("t", 1, second, nil).For("k"),
		`for "t": key is "", must not be empty`:         users.For(""),
		`for "t": key is "a}", must be without braces`:  users.For("a}"),
		`for "t": key is "{", must be without braces`:   users.For("{").WithRate(1, second),
		`for "l": rate is 0` + rate:                     l.WithRate(0, second),
		`for "l": rate is 9007199254740993` + rate:      l.WithRate(1<<53+1, second),
		`for "l": ` + keep:                              l.WithRate(1, time.Hour, minute),
		`for "l": ` + opts:                              l.WithRate(1, second, nil),

		`for "t": key is of 1025 bytes, must have at most 1024`: users.For(strings.Repeat("k", 1025)),
		`for "l": interval is 999.999µs, must be at least 1ms`:  l.WithRate(1, time.Millisecond-1),
	}
}

func TestEveryMethodRefusesAnEndedContextAndAClosedClient(t *testing.T) {
	m := redistest.Mini(t)
	rdb := redistest.MiniClient(t, m)
	c := rratelimiter.New(rdb)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for method, err := range CallAll(ended, c.RateLimiter("a")) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", method, err)
		}
	}
	NoError(t, errors.Join(c.Close(), c.Close()))
	for method, err := range CallAll(t.Context(), c.RateLimiter("a")) {
		if !errors.Is(err, rratelimiter.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", method, err)
		}
	}
	NoError(t, rdb.Ping(t.Context()).Err()) // it stays open
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
			WantText(b, err, fmt.Sprintf("rratelimiter: no rate is set for %q", l.Name()),
				"WithRate", "TrySetRate", "rrl set")
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

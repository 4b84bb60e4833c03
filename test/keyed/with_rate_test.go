package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	limits "github.com/redisson-go/rratelimiter/limit"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// configured expects what is set for a limiter.
func configured(b *Bench, l *rratelimiter.RateLimiter, want rratelimiter.Config) {
	b.Helper()
	if c, err := l.Config(b.Context()); err != nil || c != want {
		b.Errorf("%+v, %v; want %+v", c, err, want)
	}
}

// A limiter of a Keyed may have a rate of its own. It keeps the name of the Keyed, and expires.
func TestWithRateOfAKeyKeepsTheName(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		users := b.Client.Keyed("users", 2, time.Minute)
		alice := users.For(redistest.Name(b)).WithRate(5, time.Minute)
		if r, err := alice.Allow(b.Context(), 4); err != nil || r.Remaining != 1 || r.Policy != "users" {
			b.Errorf("%+v, %v", r, err)
		}
		configured(b, alice, rratelimiter.Config{
			Type: Overall, Rate: 5, Interval: time.Minute, KeepAlive: 2 * time.Minute,
		})
	})
}

func TestWithRateIsAMemberOfAGroup(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		plain := b.NewLimiter(Overall, 9, time.Minute)
		second := b.Client.RateLimiter(redistest.Name(b)).WithRate(2, time.Second)
		hour := b.NewLimiter(Overall, 3, time.Minute).WithRate(4, time.Hour)
		g := b.Client.All(plain.RateLimiter, second, hour)
		b.Want(Yes(g.TryAcquire(b.Context(), 2, 0)))
		r, err := g.Allow(b.Context(), 1)
		if err != nil || r.Allowed || r.Name != second.Name() || r.Each[2].Limit != 4 {
			b.Errorf("%+v, %v", r, err)
		}
		b.Want(g.Release(b.Context(), 1))
		b.Want(g.Acquire(b.Context(), 1))
		configured(b, hour, rratelimiter.Config{Type: Overall, Rate: 4, Interval: time.Hour})
	})
}

// Where Redis is away, the rate is known, and what was granted is booked when Redis is back
// without the limiter. The Client may have met the limiter without a rate before.
func TestWithRateFallsBack(t *testing.T) {
	for name, of := range map[string]func(c *Limiter) *rratelimiter.RateLimiter{
		"new": func(c *Limiter) *rratelimiter.RateLimiter {
			return c.Client.RateLimiter("new").WithRate(4, time.Minute)
		},
		"met": func(c *Limiter) *rratelimiter.RateLimiter {
			plain := c.Client.RateLimiter("new")
			NoError(c.T, plain.SetRate(c.Context(), Overall, 4, time.Minute))
			NoError(c.T, Yes(plain.TryAcquire(c.Context(), 1, 0)))
			c.Sleep(2 * time.Minute)
			NoError(c.T, ErrOf(plain.Delete(c.Context())))
			return plain.WithRate(4, time.Minute)
		},
		"of a Keyed": func(c *Limiter) *rratelimiter.RateLimiter {
			return c.Client.Keyed("t", 4, time.Minute).For("new")
		},
	} {
		Bubble(t, func(c *Limiter) {
			c.RDB.AddHook(Hook(c.Gate.Process))
			l := of(c)
			open := c.Gate.Shut()
			for range 3 {
				NoError(c.T, Yes(l.TryAcquire(c.Context(), 1, 0)))
			}
			open()
			c.Sleep(10 * time.Second)
			if h := c.Client.Health(); h.Degraded || h.Unbooked != 0 {
				c.Errorf("%s: %+v", name, h)
			}
			other := rratelimiter.New(redistest.MiniClient(c.T, c.Mini))
			defer other.Close()
			r, err := other.RateLimiter(l.Name()).Allow(c.Context(), 1)
			if err != nil || !r.Allowed || r.Remaining != 0 {
				c.Errorf("%s: %+v, %v; want the last permit", name, r, err)
			}
		}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	}
}

// A limiter prints as its name. Nothing asks Redis.
func TestLimitersPrintTheirNames(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := rratelimiter.New(rdb)
	defer c.Close()
	users := c.Keyed("visits", 2, time.Minute)
	for want, l := range map[string]any{
		`rate limiter "api"`:            c.RateLimiter("api"),
		`rate limiter "a\nb"`:           c.RateLimiter("a\nb").WithRate(1, time.Second),
		`rate limiter ""`:               c.RateLimiter(""),
		`rate limiter "visits:{alice}"`: users.For("alice"),
		`keyed rate limiter "visits"`:   users,
	} {
		if got := fmt.Sprint(l); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Validate reports what is wrong with a limiter itself before the first call, and each call does as
// an error that no visitor is to blame for.
func TestValidateReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	c := NewClient(t, rdb)
	bad := c.Keyed("bad", 0, time.Second)
	unset := c.RateLimiter("bad").WithRate(1, 0)
	for name, limiter := range map[string]any{
		"a Keyed": bad, "its limiter": bad.For("alice"), "a limiter": c.RateLimiter(""),
		"a limiter with a rate": unset, "a Group of it": c.All(unset),
		"a Group": c.All(), "one for all": limits.Shared(c.RateLimiter("")),
		"that of an option": rratelimiter.New(rdb, nil).Keyed("good", 1, time.Second),
	} {
		err := limits.Validate(limiter)
		if !errors.Is(err, limits.ErrMisconfigured) || !errors.Is(err, limits.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, limiter := range map[string]limits.Limiter{
		`for "bad": rate is 0`: bad.For("alice"), `for "bad": interval is 0s`: unset,
		"interval is 0s": unset.WithFallback(rratelimiter.FallbackAllow),
	} {
		_, err := limiter.Allow(t.Context(), 1)
		if !errors.Is(err, limits.ErrMisconfigured) || !strings.Contains(err.Error(), want) {
			t.Errorf("Allow: %v", err)
		}
	}
	good := c.Keyed("good", 1, time.Second)
	one := c.RateLimiter("a")
	for _, limiter := range []any{
		good, good.For("alice"), one, one.WithRate(1, time.Second), c.All(one), c,
	} {
		NoError(t, limits.Validate(limiter))
	}
	for _, key := range []string{"", "{"} { // these come from visitors
		if _, err := good.For(key).Allow(t.Context(), 1); !errors.Is(err, limits.ErrInvalidArgument) ||
			errors.Is(err, limits.ErrMisconfigured) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// A Keyed whose limiters have another rate says so once, and its results have its name if visitors
// may see that.
func TestAKeyedFindsAnotherRate(t *testing.T) {
	t.Parallel()
	told := &Observations{}
	c := NewClient(t, redistest.MiniClient(t, redistest.Mini(t)), rratelimiter.WithObserver(told))
	allow := func(keyed *rratelimiter.Keyed, key string) rratelimiter.Result {
		t.Helper()
		r, err := keyed.For(key).Allow(t.Context(), 1)
		NoError(t, err)
		return r
	}
	first := c.Keyed("users", 10, time.Minute)
	if r := allow(first, "alice"); r.Policy != "users" {
		t.Errorf("the policy is %q", r.Policy)
	}
	second := c.Keyed("users", 20, time.Minute, rratelimiter.WithKeepRate())
	for _, key := range []string{"bob", "alice", "alice", "bob"} {
		allow(second, key)
	}
	allow(c.Keyed("users", 20, time.Minute), "alice")
	var others []int
	for i, o := range told.All() {
		if o.OtherRate {
			others = append(others, i)
		}
	}
	if len(others) != 1 || others[0] != 2 {
		t.Errorf("calls %v tell of another rate, want the third", others)
	}
	for _, name := range []string{"ä", "a\nb", strings.Repeat("a", 65)} {
		if r := allow(c.Keyed(name, 1, time.Minute), "alice"); r.Policy != "" {
			t.Errorf("visitors see %q", r.Policy)
		}
	}
}

// A call that replaces a rate says so to the observer: the sign of two programs with different rates under
// one name, which overwrite each other. Every other call does not.
func TestACallThatReplacesARateSaysSo(t *testing.T) {
	type program = rratelimiter.RateLimiter
	calls := map[string]func(context.Context, *rratelimiter.Client, *program) error{
		"TryAcquire with a timeout": func(ctx context.Context, _ *rratelimiter.Client, l *program) error {
			return ErrOf(l.TryAcquire(ctx, 1, time.Second))
		},
		"Group": func(ctx context.Context, c *rratelimiter.Client, l *program) error {
			first := c.RateLimiter("{"+l.Name()+"}:first").WithRate(10, time.Minute)
			return ErrOf(c.All(first, l).TryAcquire(ctx, 1, 0))
		},
	}
	for _, name := range []string{"TryAcquire", "Acquire", "Allow", "Reserve", "Charge"} {
		calls[name] = func(ctx context.Context, _ *rratelimiter.Client, l *program) error {
			return Methods[name](ctx, l)
		}
	}
	const replaces, not = true, false
	keepRate, hour := rratelimiter.WithKeepRate(), rratelimiter.WithKeepAlive(time.Hour)
	steps := []struct {
		rate     int64
		interval time.Duration
		opts     []rratelimiter.RateOption
		want     bool
	}{
		{10, time.Minute, nil, not}, // the first one
		{10, time.Minute, nil, not},
		{20, time.Minute, nil, replaces},
		{20, time.Minute, nil, not},
		{10, time.Minute, []rratelimiter.RateOption{keepRate}, not},
		{20, time.Hour, nil, replaces},
		{20, time.Hour, []rratelimiter.RateOption{hour}, replaces},
		{20, time.Hour, []rratelimiter.RateOption{hour}, not},
		{10, time.Minute, nil, replaces},
	}
	for what, call := range calls {
		for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
			t.Run(fmt.Sprint(what, " ", typ), func(t *testing.T) {
				OnBoth(t, func(b *Bench) {
					told := &Observations{}
					c := b.NewClient(rratelimiter.WithObserver(told))
					l := b.NewLimiter(typ, 10, time.Minute)
					for i, s := range steps {
						given := c.RateLimiter(l.Name()).WithRate(s.rate, s.interval, s.opts...)
						b.Want(call(b.Context(), c, given))
						if all := told.All(); len(all) != i+1 || all[i].RateReplaced != s.want {
							t.Errorf("step %d: %+v, want replaced %v", i, all, s.want)
						}
					}
				})
			})
		}
	}
}

// Peek, and an acquire above the rate, replace nothing; a refusal replaces the rate as a grant does, also if
// it then waits, or if it comes again from memory.
func TestRefusalsAndReplacedRates(t *testing.T) {
	InBubble(t, 10, time.Minute, func(l *Limiter) {
		told := &Observations{}
		c := l.NewClient(rratelimiter.WithObserver(told), rratelimiter.WithRefusalCache(time.Second))
		given := func(rate int64) *rratelimiter.RateLimiter {
			return c.RateLimiter(l.Name()).WithRate(rate, time.Minute)
		}
		ask := func(rate, permits int64, timeout time.Duration) {
			_, _ = given(rate).TryAcquire(l.Context(), permits, timeout)
		}
		NoError(t, ErrOf(given(5).Peek(l.Context())))
		ask(5, 6, 0) // above the rate
		ask(10, 10, 0)
		ask(5, 1, 0)
		ask(5, 1, 0) // from memory
		ask(6, 1, 10*time.Second)
		ask(6, 1, time.Second)
		ask(4, 1, time.Hour)
		var replaced []bool
		for _, o := range told.All() {
			replaced = append(replaced, o.RateReplaced)
		}
		if want := []bool{false, false, true, false, true, false, true}; !slices.Equal(replaced, want) {
			t.Errorf("replaced: %v, want %v", replaced, want)
		}
	})
}

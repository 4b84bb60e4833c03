package keyed_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// configured expects what is set for a limiter.
func configured(b *Bench, l *rratelimiter.RateLimiter, want rratelimiter.Config) {
	b.Helper()
	if c, err := l.Config(b.Context()); err != nil || c != want {
		b.Errorf("%+v, %v; want %+v", c, err, want)
	}
}

// The first acquire sets the rate, in one round trip. Peek and Release do not.
func TestWithRateSetsTheRate(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		plain := b.Client.RateLimiter(redistest.Name(b))
		l := plain.WithRate(5, time.Minute)
		if r, err := l.Peek(b.Context()); err != nil || !r.Allowed || r.Limit != 5 || r.Remaining != 5 {
			b.Fatalf("peek: %+v, %v", r, err)
		}
		b.Want(l.Release(b.Context(), 2))
		if n := b.Look.Exists(b.Context(), l.Name()).Val(); n != 0 {
			b.Fatal("Peek or Release has written something")
		}
		sent := b.Sent(func() {
			r, err := l.Allow(b.Context(), 2)
			if err != nil || !r.Allowed || r.Remaining != 3 || r.Policy != "" {
				b.Fatalf("allow: %+v, %v", r, err)
			}
		})
		if sent > 2 { // the script by its hash, and whole
			b.Errorf("%d commands", sent)
		}
		configured(b, plain, rratelimiter.Config{Type: Overall, Rate: 5, Interval: time.Minute})
		b.Want(Yes(plain.TryAcquire(b.Context(), 3, 0)))
		b.Want(No(l.TryAcquire(b.Context(), 1, 0)))
		b.Want(l.Release(b.Context(), 1))
		b.Want(l.Acquire(b.Context(), 1))
		_, err := l.Delete(b.Context()) // as if Redis had come back empty
		b.Want(err)
		b.Want(l.Acquire(b.Context(), 5))
		WantErr(b, ErrOf(l.Allow(b.Context(), 6)), rratelimiter.ErrPermitsExceedRate)
	})
}

// Acquires replace another rate, interval or keep alive, and the permits stay taken. A limiter
// of one client stays so. SetRate lasts until the next acquire.
func TestWithRateReplacesTheRate(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
			plain := b.NewLimiter(typ, 10, time.Minute).RateLimiter
			b.Want(plain.Acquire(b.Context(), 7))
			l := plain.WithRate(9, time.Minute, rratelimiter.WithKeepAlive(time.Hour))
			if r, err := l.Allow(b.Context(), 1); err != nil || r.Limit != 9 || r.Remaining != 1 {
				b.Fatalf("%v: %+v, %v", typ, r, err)
			}
			want := rratelimiter.Config{Type: typ, Rate: 9, Interval: time.Minute, KeepAlive: time.Hour}
			configured(b, plain, want)
			b.Want(l.SetRate(b.Context(), typ, 4, time.Second, rratelimiter.WithKeepState()))
			b.Want(l.Acquire(b.Context(), 1))
			configured(b, plain, want)
		}
	})
}

// After a deploy that lowers the rate, new processes are refused while old ones take more than the new rate,
// and for an interval after these have stopped.
func TestALowerRateIsRefusedUntilOldProcessesStop(t *testing.T) {
	InBubble(t, 10, time.Minute, func(l *Limiter) {
		before := l.Client.RateLimiter(l.Name()).WithRate(10, time.Minute)
		after := l.NewClient().RateLimiter(l.Name()).WithRate(5, time.Minute)
		takes := func(l *Limiter, of *rratelimiter.RateLimiter) bool {
			ok, err := of.TryAcquire(l.Context(), 1, 0)
			l.Want(err)
			return ok
		}
		const step, deployed, stopped = 6 * time.Second, 10, 40
		for i := range stopped { // one in 6 s, as much as the old rate
			if !takes(l, before) {
				t.Fatal("an old process is refused")
			}
			if i >= deployed && takes(l, after) {
				t.Fatal("a new process is granted while old ones take everything")
			}
			l.Sleep(step)
		}
		waited := time.Duration(0)
		for ; !takes(l, after); waited += step {
			l.Sleep(step)
		}
		if waited == 0 || waited > time.Minute {
			t.Errorf("the new process is refused for %v, want at most an interval", waited)
		}
	})
}

// With WithKeepRate a rate that is set stays, and one that is gone is set again.
func TestWithRateKeepsTheRate(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		plain := b.NewLimiter(Overall, 10, time.Minute).RateLimiter
		l := plain.WithRate(5, time.Hour, rratelimiter.WithKeepRate())
		if r, err := l.Allow(b.Context(), 4); err != nil || r.Limit != 10 || r.Remaining != 6 {
			b.Fatalf("%+v, %v", r, err)
		}
		configured(b, plain, rratelimiter.Config{Type: Overall, Rate: 10, Interval: time.Minute})
		_, err := l.Delete(b.Context())
		b.Want(err)
		if r, err := l.Allow(b.Context(), 4); err != nil || r.Limit != 5 || r.Remaining != 1 {
			b.Errorf("%+v, %v", r, err)
		}
	})
}

// A limiter of a Keyed may have a rate of its own. It keeps the name of the Keyed, and expires.
func TestWithRateOfAKeyKeepsTheName(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		users := b.Client.Keyed("users", 2, time.Minute)
		alice := users.RateLimiter(redistest.Name(b)).WithRate(5, time.Minute)
		if r, err := alice.Allow(b.Context(), 4); err != nil || r.Remaining != 1 || r.Policy != "users" {
			b.Errorf("%+v, %v", r, err)
		}
		configured(b, alice, rratelimiter.Config{
			Type: Overall, Rate: 5, Interval: time.Minute, KeepAlive: 2 * time.Minute,
		})
	})
}

// Each call that takes or gives permits reports bad arguments, and so does Validate.
func TestWithRateRefuses(t *testing.T) {
	b := NewBench(t, redistest.Start(t).Client(t), nil)
	l := b.Client.RateLimiter("l")
	for _, spec := range []struct {
		limiter *rratelimiter.RateLimiter
		want    []string
	}{
		{l.WithRate(0, time.Second), []string{`for "l"`, "rate is 0"}},
		{l.WithRate(1<<53+1, time.Second), []string{`for "l"`, "rate is 9007199254740993"}},
		{l.WithRate(1, time.Millisecond-1), []string{`for "l"`, "interval is 999.999µs"}},
		{l.WithRate(1, time.Hour, rratelimiter.WithKeepAlive(time.Minute)),
			[]string{`for "l"`, "keepAlive is 1m0s"}},
		{l.WithRate(1, time.Second, nil), []string{`for "l"`, "opts[0] is nil"}},
		{b.Client.RateLimiter("").WithRate(0, time.Second), []string{`name is ""`}},
		{rratelimiter.New(nil).RateLimiter("l").WithRate(1, time.Second), []string{"rdb is nil"}},
		{b.Client.Keyed("k", 1, time.Second).RateLimiter("{").WithRate(1, time.Second),
			[]string{`key is "{"`}},
	} {
		allows := spec.limiter.WithFallback(rratelimiter.FallbackAllow)
		errs := CallAll(t.Context(), spec.limiter)
		errs["Validate"] = spec.limiter.Validate()
		errs["of a Group"] = ErrOf(b.Client.All(spec.limiter).Allow(t.Context(), 1))
		errs["with a Fallback"] = ErrOf(allows.Allow(t.Context(), 1))
		for name, err := range errs {
			if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
				t.Errorf("%s: %q: %v", name, spec.want, err)
			}
			WantText(t, err, spec.want...)
		}
	}
	if keys := b.RDB.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("%q was written", keys)
	}
}

// Limiters with a rate are members of a Group beside others.
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
	for _, met := range []bool{false, true} {
		Bubble(t, func(c *Limiter) {
			c.RDB.AddHook(Hook(c.Gate.Process))
			plain := c.Client.RateLimiter("new")
			if met {
				NoError(c.T, plain.SetRate(c.Context(), Overall, 4, time.Minute))
				NoError(c.T, Yes(plain.TryAcquire(c.Context(), 1, 0)))
				c.Sleep(2 * time.Minute)
				NoError(c.T, ErrOf(plain.Delete(c.Context())))
			}
			l := plain.WithRate(4, time.Minute)
			open := c.Gate.Shut()
			for range 3 {
				NoError(c.T, Yes(l.TryAcquire(c.Context(), 1, 0)))
			}
			open()
			c.Sleep(10 * time.Second)
			if h := c.Client.Health(); h.Degraded || h.Unbooked != 0 {
				c.Errorf("met %v: %+v", met, h)
			}
			other := rratelimiter.New(redistest.MiniClient(c.T, c.Mini))
			defer other.Close()
			r, err := other.RateLimiter("new").Allow(c.Context(), 1)
			if err != nil || !r.Allowed || r.Remaining != 0 {
				c.Errorf("met %v: %+v, %v; want the last permit", met, r, err)
			}
		}, rratelimiter.WithFallback(rratelimiter.FallbackLocal))
	}
}

// A limiter that expires is set again by the next acquire, also of a caller that waits.
func TestWithRateAfterItHasExpired(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		l := c.Client.RateLimiter("l").WithRate(1, time.Minute, rratelimiter.WithKeepAlive(2*time.Minute))
		NoError(c.T, l.Acquire(c.Context(), 1))
		NoError(c.T, l.Acquire(c.Context(), 1))
		c.Sleep(time.Hour)
		if keys := c.Mini.Keys(); len(keys) != 0 {
			c.Errorf("%q are left", keys)
		}
		NoError(c.T, l.Acquire(c.Context(), 1))
	}, rratelimiter.WithGoOnly())
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
		`rate limiter "visits:{alice}"`: users.RateLimiter("alice"),
		`keyed rate limiter "visits"`:   users,
	} {
		if got := fmt.Sprint(l); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

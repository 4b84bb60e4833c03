package keyed_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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
					told := &seen{}
					c := b.NewClient(rratelimiter.WithObserver(told))
					l := b.NewLimiter(typ, 10, time.Minute)
					for i, s := range steps {
						given := c.RateLimiter(l.Name()).WithRate(s.rate, s.interval, s.opts...)
						b.Want(call(b.Context(), c, given))
						if o := told.all[len(told.all)-1]; len(told.all) != i+1 || o.RateReplaced != s.want {
							t.Errorf("step %d: replaced %v, want %v", i, o.RateReplaced, s.want)
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
		told := &seen{}
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
		for _, o := range told.all {
			replaced = append(replaced, o.RateReplaced)
		}
		if want := []bool{false, false, true, false, true, false, true}; !slices.Equal(replaced, want) {
			t.Errorf("replaced: %v, want %v", replaced, want)
		}
	})
}

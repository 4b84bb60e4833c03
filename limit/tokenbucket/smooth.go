package tokenbucket

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Smooth spreads permits evenly, like Guava's RateLimiter: the next caller pays. It grants a request
// of any size if nothing is owed, and then owes the time of its permits. So callers wait for the permits
// of the caller before them, never for their own.
//
// A Smooth saves unused permits. Without WarmUp it saves those of one second, which then cost nothing.
// With WarmUp, a limiter that was idle is cold: at first a permit takes three times as long, and after
// WarmUp of use it takes its time at Rate. That protects a cache or a pool that must fill.
//
// There is no Smooth on Redis: see leakybucket.Queue.
type Smooth struct {
	Rate     float64       // above 0, at most 2^40; 0.5 is a permit in two intervals
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
	WarmUp   time.Duration // 0, or 1 µs to 3,660 days
}

// InMemory returns a limiter in this process, which saves permits from now on. The limit of a key saves
// permits from its first call on; later calls drop limits that have not been used for a while, with their
// saved permits. The error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (s Smooth) InMemory(opts ...limit.Option) (SmoothLimiter, error) {
	forms, err := form.InMemory(s.rule, opts)
	if err != nil {
		return SmoothLimiter{}, err
	}
	f, _ := s.flow()
	one := SmoothLimiter{smooth{forms.One.(tickets), f}, smooth{forms.Each.(tickets), f}, ""}
	return one, one.form.Do(context.Background(), "", f.at)
}

// flow returns the rule, in the numbers of Guava.
func (s Smooth) flow() (flow, error) {
	if err := cmp.Or(positive(s.Rate), form.Span("Interval", s.Interval)); err != nil {
		return flow{}, err
	}
	interval := s.Interval.Truncate(time.Microsecond)
	warmUp := s.WarmUp.Truncate(time.Microsecond)
	if s.WarmUp != 0 && (warmUp < time.Microsecond || warmUp > form.MostTime) {
		return flow{}, fmt.Errorf("%w: WarmUp is %v, must be 0 or 1µs to %v", limit.ErrInvalidArgument,
			s.WarmUp, form.MostTime)
	}
	f := newFlow(s.Rate/interval.Seconds(), float64(warmUp.Microseconds()), max(1, int64(s.Rate)))
	if us := f.idle(); us > float64(form.MostTime.Microseconds()) {
		return flow{}, fmt.Errorf("%w: Rate is %v in %v, one permit must take at most %v",
			limit.ErrInvalidArgument, s.Rate, interval, form.MostTime)
	}
	return f, nil
}

func (s Smooth) rule() (form.Rule[ticket], error) {
	f, err := s.flow()
	if err != nil {
		return form.Rule[ticket]{}, err
	}
	interval := max(1, math.Ceil(float64(f.limit)*float64(s.Interval.Microseconds())/s.Rate))
	return form.Rule[ticket]{
		Numbers: form.Numbers{Algorithm: "smooth", Limit: f.limit,
			Interval: time.Duration(interval) * time.Microsecond,
			Idle:     time.Duration(f.idle())*time.Microsecond + time.Millisecond},
		Take: f.take,
		Owes: f.owes,
	}, nil
}

// A SmoothLimiter is the limiter of a Smooth: one limit, or with For one limit for each key. It is a
// limit.Peeker and a limit.Keyed. Calls of the zero SmoothLimiter panic.
type SmoothLimiter struct {
	form, each smooth // of this limit, and of those by key
	key        string
}

// For returns the limit of a key of 1 to 1,024 bytes. With another key each call is a
// limit.ErrInvalidArgument.
func (l SmoothLimiter) For(key string) SmoothLimiter { return SmoothLimiter{l.each, l.each, key} }

// Allow takes n permits if nothing is owed. Result.Limit is Rate, at least 1. Result.Remaining equals it
// if nothing is owed, and is 0 otherwise.
func (l SmoothLimiter) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return l.form.Allow(ctx, l.key, n)
}

// Peek returns the numbers without taking anything ([limit.Peeker]).
func (l SmoothLimiter) Peek(ctx context.Context) (limit.Result, error) {
	return l.form.Peek(ctx, l.key)
}

// Acquire takes n permits, 1 to Rate, and returns how long it waited for the permits of earlier callers. For
// more than Rate the error is limit.ErrPermitsExceedRate: take them in parts. If ctx ends first, Acquire
// takes nothing, and errors.Is(err, ctx.Err()) holds; but if other callers have come since, the time of its
// permits passes unused.
func (l SmoothLimiter) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	waited, _, err = l.form.acquire(ctx, l.key, n, math.MaxInt64)
	return waited, err
}

// TryAcquire is Acquire, and returns true, if the wait is at most timeout. Otherwise it takes nothing and
// returns false at once. With a timeout of 0 or less it does not wait.
func (l SmoothLimiter) TryAcquire(ctx context.Context, n int64, timeout time.Duration) (bool, error) {
	_, ok, err := l.form.acquire(ctx, l.key, n, timeout)
	return ok, err
}

// A smooth holds the tickets of one limit or of all keys, for which callers wait.
type smooth struct {
	tickets
	flow flow
}

// tickets are a form in memory.
type tickets interface {
	form.Form
	form.Opened[ticket]
}

// acquire reserves n permits if that takes at most timeout, and waits for them.
func (s smooth) acquire(ctx context.Context, key string, n int64,
	timeout time.Duration) (waited time.Duration, ok bool, err error) {
	if err := (&form.Numbers{Limit: s.flow.limit}).Check(ctx, n, false); err != nil {
		return 0, false, err
	}
	var before, after ticket
	var wait time.Duration
	err = s.Do(ctx, key, func(t *ticket, now int64) {
		s.flow.at(t, now)
		wait = form.Micros(t.next - now)
		if ok = wait <= max(0, timeout); ok {
			before = *t
			s.flow.reserve(t, now, n)
			after = *t
		}
	})
	if err != nil || !ok || wait == 0 {
		return 0, ok, err
	}
	start := time.Now()
	if pause.For(ctx, wait) == nil {
		return time.Since(start), true, nil
	}
	_ = s.Do(context.WithoutCancel(ctx), key, func(t *ticket, _ int64) {
		if t.next == after.next && t.saved == after.saved {
			t.next, t.saved = before.next, before.saved
		}
	})
	return time.Since(start), false, fmt.Errorf("rratelimiter: %w", ctx.Err())
}

var (
	_ limit.Peeker               = SmoothLimiter{}
	_ limit.Keyed[SmoothLimiter] = SmoothLimiter{}
)

package limittest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A broken is a limiter that a check must reject.
type broken struct {
	what      string
	text      string // part of the failure
	algorithm Algorithm
	breaks    func(s *Spec)
}

// An allow is the Allow of a broken limiter, on top of a memory.
type allow = func(ctx context.Context, m *memory, n int64) (limit.Result, error)

// changed returns a New of limiters with another Allow than a memory.
func changed(algorithm Algorithm, allow allow) func(*testing.T, int64, time.Duration) limit.Limiter {
	return func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
		m := newMemory(algorithm, rate, interval)
		return limit.Func(func(ctx context.Context, n int64) (limit.Result, error) {
			return allow(ctx, m, n)
		})
	}
}

// calls is a sliding log whose calls are replaced.
func calls(what, text string, allow allow) broken {
	return broken{what, text, SlidingLog, func(s *Spec) { s.New = changed(SlidingLog, allow) }}
}

// paced is a queue whose calls are replaced.
func paced(what, text string, allow allow) broken {
	return broken{what, text, Paced, func(s *Spec) { s.New = changed(Paced, allow) }}
}

// An outcome is the Result of a call for n permits, which a broken limiter changes.
type outcome struct {
	*limit.Result
	n int64
	m *memory
}

// takes takes permits behind the back of the caller.
func (o outcome) takes(n int64) { _, _ = o.m.Allow(context.Background(), n) }

// results is a sliding log whose results are changed, unless there is an error.
func results(what, text string, change func(o outcome)) broken {
	return calls(what, text, func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
		r, err := m.Allow(ctx, n)
		if err == nil {
			change(outcome{&r, n, m})
		}
		return r, err
	})
}

// refusals is a sliding log whose refusals are changed.
func refusals(what, text string, change func(o outcome)) broken {
	return results(what, text, func(o outcome) {
		if !o.Allowed {
			change(o)
		}
	})
}

// withEach is a sliding log whose results have two equal results of limits, which are changed.
func withEach(what, text string, change func(o outcome)) broken {
	return results(what, text, func(o outcome) {
		one := *o.Result
		o.Each = []limit.Result{one, one}
		change(o)
	})
}

// takesOn is a sliding log that takes a permit where it returns an error.
func takesOn(target error) broken {
	return calls("takes a permit", "refuses",
		func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
			r, err := m.Allow(ctx, n)
			if errors.Is(err, target) {
				_, _ = m.Allow(context.WithoutCancel(ctx), 1)
			}
			return r, err
		})
}

// says is a sliding log that replaces an error by another.
func says(target, other error) broken {
	return calls("another error", other.Error(),
		func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
			r, err := m.Allow(ctx, n)
			if errors.Is(err, target) {
				err = other
			}
			return r, err
		})
}

// tuned is a limiter of an algorithm with wrong numbers.
func tuned(what, text string, algorithm Algorithm, tune func(rate *int64, interval *time.Duration)) broken {
	return broken{what, text, algorithm, func(s *Spec) {
		s.New = func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
			tune(&rate, &interval)
			return newMemory(algorithm, rate, interval)
		}
	}}
}

// every is a limiter of an algorithm with another interval.
func every(what, text string, algorithm Algorithm, change func(time.Duration) time.Duration) broken {
	return tuned(what, text, algorithm, func(_ *int64, d *time.Duration) { *d = change(*d) })
}

func threefold(d time.Duration) time.Duration { return 3 * d }
func third(d time.Duration) time.Duration     { return d / 3 }

// apart is a Pair of which each handle has a limit.
func apart(text string, algorithm Algorithm) broken {
	return broken{"a limit each", text, algorithm, func(s *Spec) {
		s.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
			return s.New(t, rate, interval), s.New(t, rate, interval)
		}
	}}
}

// keeps takes permits even if the context of the call ends meanwhile.
func keeps(ctx context.Context, m *memory, n int64) (limit.Result, error) {
	r, err := m.Allow(ctx, n)
	select {
	case <-ctx.Done():
		if err == nil {
			return limit.Result{}, ctx.Err()
		}
	case <-time.After(time.Millisecond): // as long as a store may take
	}
	return r, err
}

// brokenLimiters are grouped by the check that must reject them.
var brokenLimiters = map[string][]broken{
	"n below 1 is an ErrInvalidArgument and takes nothing": {
		calls("gives permits", "error <nil>",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if n < 1 {
					return limit.Result{Allowed: true}, m.Release(ctx, m.rate)
				}
				return m.Allow(ctx, n)
			}),
		takesOn(limit.ErrInvalidArgument), says(limit.ErrInvalidArgument, limit.ErrPermitsExceedRate),
	},
	"n above the rate is an ErrPermitsExceedRate and takes nothing": {
		calls("refuses", "error <nil>", func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
			r, err := m.Allow(ctx, min(n, m.rate))
			return r, err
		}),
		calls("overflows", "error <nil>",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if n > 1<<31 {
					return limit.Result{}, nil
				}
				return m.Allow(ctx, n)
			}),
		takesOn(limit.ErrPermitsExceedRate), says(limit.ErrPermitsExceedRate, limit.ErrInvalidArgument),
	},
	"a context that has ended takes nothing": {
		calls("ignores it", "error <nil>",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				return m.Allow(context.WithoutCancel(ctx), n)
			}),
		takesOn(context.Canceled), takesOn(context.DeadlineExceeded),
		says(context.DeadlineExceeded, context.Canceled), says(context.Canceled, errors.New("ended")),
	},
	"an error has no numbers": {
		calls("numbers", "zero Result", func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
			r, err := m.Allow(ctx, n)
			if err != nil {
				r.Limit = m.rate
			}
			return r, err
		}),
	},
	"a context that ends during a call keeps nothing": {
		calls("keeps permits", "are left", keeps),
		calls("gives too much back", "are left",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				r, err := m.Allow(ctx, n)
				time.Sleep(time.Millisecond)
				if err == nil && r.Allowed && ctx.Err() != nil {
					_ = m.Release(context.WithoutCancel(ctx), 2*n)
					return limit.Result{}, ctx.Err()
				}
				return r, err
			}),
		paced("keeps permits of a queue", "no permits are left", keeps),
		paced("refuses a large request", "want it to grant or to fail",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if n > 1 {
					return limit.Result{}, nil
				}
				return m.Allow(ctx, n)
			}),
		paced("another error of a queue", "its context has",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if r, err := keeps(ctx, m, n); err == nil {
					return r, nil
				}
				return limit.Result{}, errors.New("broken pipe")
			}),
		calls("another error", "its context has",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				time.Sleep(time.Millisecond)
				r, err := m.Allow(ctx, n)
				if err != nil && n == 1 {
					err = errors.New("broken pipe")
				}
				return r, err
			}),
	},
	"the rate is granted at once, and no more": {
		{"a bucket that is said to be paced", "want it to refuse", Paced, func(s *Spec) {
			s.New = func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
				return newMemory(TokenBucket, 2*rate, interval)
			}
		}},
		tuned("one more", "want it to refuse", SlidingLog, func(n *int64, _ *time.Duration) { *n++ }),
		tuned("one less", "to grant", SlidingLog, func(n *int64, _ *time.Duration) { *n = max(1, *n-1) }),
		calls("counts calls", "want it to refuse",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				return m.Allow(ctx, min(n, 1))
			}),
	},
	"several permits are granted all or none": {
		refusals("takes what is there", "refuses", func(o outcome) { o.takes(max(1, o.Remaining)) }),
		refusals("one left is enough", "grants", func(o outcome) { o.Allowed = o.Remaining > 0 }),
	},
	"a refusal takes nothing": {
		refusals("counts it", "refuses", func(o outcome) { o.takes(1) }),
		refusals("begins anew", "refuses", func(o outcome) {
			out := o.m.rate - o.Remaining
			_ = o.m.Release(context.Background(), out)
			o.takes(out)
		}),
	},
	"Limit and Interval are those of the limiter": {
		results("no Limit", "want Limit", func(o outcome) { o.Limit = 0 }),
		results("no Interval", "want Limit", func(o outcome) { o.Interval = 0 }),
		refusals("other of a refusal", "want Limit", func(o outcome) { o.Limit-- }),
	},
	"Remaining is what is left": {
		results("before the grant", "Remaining is", func(o outcome) {
			if o.Allowed {
				o.Remaining += o.n
			}
		}),
		refusals("0 if refused", "Remaining is", func(o outcome) { o.Remaining = 0 }),
		refusals("below 0", "Remaining is", func(o outcome) { o.Remaining -= o.n }),
	},
	"RetryAfter is 0 if allowed and above 0 if refused": {
		results("always", "want 0", func(o outcome) { o.RetryAfter = o.ResetAfter }),
		results("never", "above 0", func(o outcome) { o.RetryAfter = 0 }),
	},
	"after RetryAfter the permits are there": {
		results("rounded down", "after the RetryAfter", func(o outcome) { o.RetryAfter -= 1e6 }),
		refusals("that of one permit", "after the RetryAfter", func(o outcome) {
			if o.Remaining == 0 {
				one, _ := o.m.Allow(context.Background(), 1)
				o.RetryAfter = one.RetryAfter
			}
		}),
	},
	"before RetryAfter the permits are not there": {
		results("the Interval", "RetryAfter was", func(o outcome) { o.RetryAfter = o.Interval }),
		results("that of all", "RetryAfter was", func(o outcome) { o.RetryAfter = o.ResetAfter }),
		refusals("at least 10 ms", "before it was", func(o outcome) {
			o.RetryAfter = max(o.RetryAfter, 10e6)
		}),
	},
	"ResetAfter is between RetryAfter and the interval": {
		results("never", "ResetAfter is 0", func(o outcome) { o.ResetAfter = 0 }),
		results("a point in time", "ResetAfter is", func(o outcome) { o.ResetAfter += 1e18 }),
		results("before RetryAfter", "not below", func(o outcome) { o.ResetAfter = 1e6 }),
	},
	"after ResetAfter all permits are there": {
		results("too short", "after the ResetAfter", func(o outcome) { o.ResetAfter -= 1e6 }),
		refusals("too short if refused", "that of a refusal", func(o outcome) { o.ResetAfter -= 1e6 }),
	},
	"a limiter that was idle is full and not fuller": {
		{"has no top", "want it to refuse", TokenBucket, func(s *Spec) {
			s.New = changed(TokenBucket, func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if !m.since.IsZero() && time.Since(m.since) > m.interval {
					m.Releaser = newMemory(TokenBucket, 2*m.rate, m.interval).Releaser
				}
				m.since = time.Now()
				return m.Allow(ctx, n)
			})
		}},
		calls("ends", "want it to grant",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if m.since.IsZero() {
					m.since = time.Now()
				}
				if time.Since(m.since) > 2*m.interval {
					return limit.Result{}, nil
				}
				return m.Allow(ctx, n)
			}),
	},
	"a Result agrees with itself": {
		results("Remaining below 0", "between 0", func(o outcome) { o.Remaining -= o.n }),
		results("Remaining above Limit", "between 0", func(o outcome) { o.Remaining += o.Limit }),
		results("time below 0", "below 0", func(o outcome) { o.RetryAfter-- }),
		refusals("another Name", "Name was", func(o outcome) { o.Name = "other" }),
		results("Degraded", "nothing has failed", func(o outcome) { o.Degraded = true }),
		results("Each without any", "all of Each", func(o outcome) { o.Each = []limit.Result{} }),
		withEach("Each of a refusal allowed", "all of Each", func(o outcome) {
			o.Each[0].Allowed, o.Each[1].Allowed = true, true
		}),
		withEach("Each waits longer", "longest of Each", func(o outcome) { o.RetryAfter /= 2 }),
		withEach("Each has Remaining below 0", "between 0", func(o outcome) { o.Each[0].Remaining = -1 }),
	},
	"many callers at once get the rate and no more": {
		calls("looks, then takes", "callers together",
			func(_ context.Context, m *memory, n int64) (limit.Result, error) {
				allowed := m.used.Load()+n <= m.rate
				time.Sleep(time.Millisecond) // as long as a store may take
				if allowed {
					m.used.Add(n)
				}
				return limit.Result{Allowed: allowed}, nil
			}),
		paced("never owes", "callers together",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				r, err := m.Allow(ctx, n)
				return r, errors.Join(err, m.Release(ctx, n))
			}),
		broken{"refuses if busy", "callers together", SlidingLog, func(s *Spec) {
			s.New = func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
				m := newMemory(SlidingLog, rate, interval)
				var busy sync.Mutex
				return limit.Func(func(ctx context.Context, n int64) (limit.Result, error) {
					if !busy.TryLock() {
						return limit.Result{}, nil
					}
					defer busy.Unlock()
					time.Sleep(time.Millisecond)
					return m.Allow(ctx, n)
				})
			}
		}},
	},
	"two handles share one limit": {
		apart("Remaining of the other", SlidingLog), apart("want it to refuse", Paced),
	},
	"no interval has more than the algorithm promises": {
		{"a fixed window", "within an interval", SlidingLog, func(s *Spec) {
			s.New = specOf(FixedWindow).New
		}},
		{"a token bucket", "within an interval", SlidingLog, func(s *Spec) {
			s.New = specOf(TokenBucket).New
		}},
		every("a short interval", "within an interval", SlidingLog,
			func(d time.Duration) time.Duration { return d - 3*time.Millisecond }),
		every("a fast bucket", "want at most 20", TokenBucket, third),
		every("a fast queue", "want at most 20", Paced, func(d time.Duration) time.Duration { return d / 5 }),
		every("short windows", "want at most 20", FixedWindow, third),
	},
	"a refusal has a reason": {
		every("a long interval", "are refused", SlidingLog,
			func(d time.Duration) time.Duration { return d + 20*time.Millisecond }),
		every("a slow bucket", "are refused", TokenBucket, threefold),
		every("a slow queue", "nothing is owed", Paced, threefold),
		every("long windows", "are refused", FixedWindow, threefold),
	},
}

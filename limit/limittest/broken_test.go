package limittest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A broken is a limiter that a check must find.
type broken struct {
	what      string
	text      string // of the failure
	algorithm Algorithm
	breaks    func(s *Spec)
}

// An allow is what a limiter does with its memory.
type allow = func(ctx context.Context, m *memory, n int64) (limit.Result, error)

// changed returns a New whose limiters do something else than a memory.
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

// results is a sliding log whose results are changed, once there is no error.
func results(what, text string, change func(r *limit.Result, n int64)) broken {
	return calls(what, text, func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
		r, err := m.Allow(ctx, n)
		if err == nil {
			change(&r, n)
		}
		return r, err
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

// says is a sliding log that has another error instead of one.
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

// tuned is a limiter of an algorithm, one of whose numbers is wrong.
func tuned(what, text string, algorithm Algorithm, tune func(m *memory)) broken {
	return broken{what, text, algorithm, func(s *Spec) {
		s.New = func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
			m := newMemory(algorithm, rate, interval)
			tune(m)
			return m
		}
	}}
}

// keeps takes permits also if the context of the call ends meanwhile.
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

// brokenLimiters are by the check that must find them.
var brokenLimiters = map[string][]broken{
	"n below 1 is an ErrInvalidArgument and takes nothing": {
		calls("gives permits", "error <nil>",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if n < 1 {
					m.take(n)
					return limit.Result{Allowed: true}, nil
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
					m.mu.Lock()
					defer m.mu.Unlock()
					m.take(-2 * n)
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
		tuned("a bucket that is said to be paced", "want it to refuse", Paced, func(m *memory) {
			m.algorithm = TokenBucket
			m.rate *= 2
		}),
		tuned("one more", "want it to refuse", SlidingLog, func(m *memory) { m.rate++ }),
		tuned("one less", "want it to grant", SlidingLog, func(m *memory) { m.rate = max(1, m.rate-1) }),
		calls("counts calls", "want it to refuse",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				return m.Allow(ctx, min(n, 1))
			}),
	},
	"several permits are granted all or none": {
		calls("takes what is there", "refuses",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				r, err := m.Allow(ctx, n)
				if err == nil && !r.Allowed {
					_, err = m.Allow(ctx, max(1, r.Remaining))
				}
				return r, err
			}),
		calls("one left is enough", "grants",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				r, err := m.Allow(ctx, n)
				r.Allowed = r.Allowed || r.Remaining > 0
				return r, err
			}),
	},
	"a refusal takes nothing": {
		calls("counts it", "refuses", func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
			r, err := m.Allow(ctx, n)
			if err == nil && !r.Allowed {
				_, err = m.Allow(ctx, 1)
			}
			return r, err
		}),
		calls("begins anew", "refuses", func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
			r, err := m.Allow(ctx, n)
			if err == nil && !r.Allowed {
				m.grants[0].start = m.now()
			}
			return r, err
		}),
	},
	"Limit and Interval are those of the limiter": {
		results("no Limit", "want Limit", func(r *limit.Result, _ int64) { r.Limit = 0 }),
		results("no Interval", "want Limit", func(r *limit.Result, _ int64) { r.Interval = 0 }),
		results("other of a refusal", "want Limit", func(r *limit.Result, _ int64) {
			if !r.Allowed {
				r.Limit--
			}
		}),
	},
	"Remaining is what is left": {
		results("before the grant", "Remaining is", func(r *limit.Result, n int64) {
			if r.Allowed {
				r.Remaining += n
			}
		}),
		results("0 if refused", "Remaining is", func(r *limit.Result, _ int64) {
			if !r.Allowed {
				r.Remaining = 0
			}
		}),
		results("below 0", "Remaining is", func(r *limit.Result, n int64) {
			if !r.Allowed {
				r.Remaining -= n
			}
		}),
	},
	"RetryAfter is 0 if allowed and above 0 if refused": {
		results("always", "want 0", func(r *limit.Result, _ int64) { r.RetryAfter = r.ResetAfter }),
		results("never", "above 0", func(r *limit.Result, _ int64) { r.RetryAfter = 0 }),
	},
	"after RetryAfter the permits are there": {
		results("rounded down", "after the RetryAfter", func(r *limit.Result, _ int64) {
			r.RetryAfter -= 1e6
		}),
		calls("that of one permit", "after the RetryAfter",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				r, err := m.Allow(ctx, n)
				if err == nil && !r.Allowed && r.Remaining == 0 {
					r.RetryAfter = m.grants[0].start.Add(m.interval).Sub(m.now())
				}
				return r, err
			}),
	},
	"before RetryAfter the permits are not there": {
		results("the Interval", "RetryAfter was", func(r *limit.Result, _ int64) {
			r.RetryAfter = r.Interval
		}),
		results("that of all", "RetryAfter was", func(r *limit.Result, _ int64) {
			r.RetryAfter = r.ResetAfter
		}),
		results("at least 10 ms", "before it was", func(r *limit.Result, _ int64) {
			if !r.Allowed {
				r.RetryAfter = max(r.RetryAfter, 10e6)
			}
		}),
	},
	"ResetAfter is between RetryAfter and the interval": {
		results("never", "ResetAfter is 0", func(r *limit.Result, _ int64) { r.ResetAfter = 0 }),
		results("a point in time", "ResetAfter is", func(r *limit.Result, _ int64) { r.ResetAfter += 1e18 }),
		results("before RetryAfter", "not below", func(r *limit.Result, _ int64) { r.ResetAfter = 1e6 }),
	},
	"after ResetAfter all permits are there": {
		results("too short", "after the ResetAfter", func(r *limit.Result, _ int64) { r.ResetAfter -= 1e6 }),
		results("too short if refused", "that of a refusal", func(r *limit.Result, _ int64) {
			if !r.Allowed {
				r.ResetAfter -= 1e6
			}
		}),
	},
	"a limiter that was idle is full and not fuller": {
		tuned("has no top", "want it to refuse", TokenBucket, func(m *memory) { m.top = 1e9 }),
		calls("ends", "want it to grant",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if m.since.IsZero() {
					m.since = m.now()
				}
				if m.now().Sub(m.since) > 2*m.interval {
					return limit.Result{}, nil
				}
				return m.Allow(ctx, n)
			}),
	},
	"a Result agrees with itself": {
		results("Remaining below 0", "between 0", func(r *limit.Result, n int64) { r.Remaining -= n }),
		results("Remaining above Limit", "between 0", func(r *limit.Result, _ int64) {
			r.Remaining += r.Limit
		}),
		results("time below 0", "below 0", func(r *limit.Result, _ int64) { r.RetryAfter-- }),
		results("another Name", "Name was", func(r *limit.Result, _ int64) {
			if !r.Allowed {
				r.Name = ""
			}
		}),
		results("Degraded", "nothing has failed", func(r *limit.Result, _ int64) { r.Degraded = true }),
		results("Each without any", "all of Each", func(r *limit.Result, _ int64) {
			r.Each = []limit.Result{}
		}),
		results("Each of a refusal allowed", "all of Each", func(r *limit.Result, _ int64) {
			one := *r
			one.Allowed = true
			r.Each = []limit.Result{one, one}
		}),
		results("Each waits longer", "longest of Each", func(r *limit.Result, _ int64) {
			one := *r
			r.Each = []limit.Result{one, one}
			r.RetryAfter /= 2
		}),
		results("Each has Remaining below 0", "between 0", func(r *limit.Result, _ int64) {
			one := *r
			one.Remaining = -1
			r.Each = []limit.Result{one}
		}),
	},
	"many callers at once get the rate and no more": {
		calls("looks, then takes", "callers together",
			func(ctx context.Context, m *memory, n int64) (limit.Result, error) {
				if err := m.check(ctx, n); err != nil {
					return limit.Result{}, err
				}
				m.mu.Lock()
				left, _, _ := m.log(n)
				m.mu.Unlock()
				time.Sleep(time.Millisecond) // as long as a store may take
				m.mu.Lock()
				defer m.mu.Unlock()
				if left >= n {
					m.take(n)
				}
				return limit.Result{Allowed: left >= n}, nil
			}),
		tuned("never owes", "callers together", Paced, func(m *memory) { m.interval = 0 }),
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
		{"a limit each", "Remaining of the other", SlidingLog, func(s *Spec) {
			s.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
				return s.New(t, rate, interval), s.New(t, rate, interval)
			}
		}},
		{"a queue each", "want it to refuse", Paced, func(s *Spec) {
			s.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
				return s.New(t, rate, interval), s.New(t, rate, interval)
			}
		}},
	},
	"no interval has more than the algorithm promises": {
		{"a fixed window", "within an interval", SlidingLog, func(s *Spec) {
			s.New = specOf(FixedWindow).New
		}},
		{"a token bucket", "within an interval", SlidingLog, func(s *Spec) {
			s.New = specOf(TokenBucket).New
		}},
		tuned("a short interval", "within an interval", SlidingLog, func(m *memory) { m.interval -= 3e6 }),
		tuned("a fast bucket", "want at most 20", TokenBucket, func(m *memory) { m.interval /= 3 }),
		tuned("a fast queue", "want at most 20", Paced, func(m *memory) { m.interval /= 5 }),
		tuned("short windows", "want at most 20", FixedWindow, func(m *memory) { m.interval /= 3 }),
	},
	"a refusal has a reason": {
		tuned("a long interval", "are refused", SlidingLog, func(m *memory) { m.interval += 20e6 }),
		tuned("a slow bucket", "are refused", TokenBucket, func(m *memory) { m.interval *= 3 }),
		tuned("a slow queue", "nothing is owed", Paced, func(m *memory) { m.interval *= 3 }),
		tuned("long windows", "are refused", FixedWindow, func(m *memory) { m.interval *= 3 }),
	},
}

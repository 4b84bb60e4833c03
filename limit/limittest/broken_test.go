package limittest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A broken is a limiter that a check must reject.
type broken struct {
	what   string
	text   string // part of the failure
	breaks func(s *suite)
}

// A call is one of Allow, which a broken limiter changes.
type call struct {
	ctx context.Context
	m   *memory
	n   int64
	limit.Result
	err     error
	ignored bool // the limiter is not asked
}

// takes takes permits behind the back of the caller.
func (c *call) takes(n int64) { _, _ = c.m.Allow(context.WithoutCancel(c.ctx), n) }

// changed returns a New of limiters whose calls are changed before and after their decision.
func changed(algorithm Algorithm, before, after func(c *call)) (
	newLimiter func(*testing.T, int64, time.Duration) limit.Limiter) {
	return func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
		m := newMemory(algorithm, rate, interval)
		return limit.Func(func(ctx context.Context, n int64) (limit.Result, error) {
			c := &call{ctx: ctx, m: m, n: n}
			before(c)
			if !c.ignored {
				c.Result, c.err = m.Allow(c.ctx, c.n)
			}
			after(c)
			return c.Result, c.err
		})
	}
}

func nothing(*call) {}

// of is a limiter of an algorithm whose calls are changed.
func of(algorithm Algorithm, what, text string, before, after func(c *call)) broken {
	return broken{what, text, func(s *suite) {
		s.spec = specOf(algorithm)
		s.spec.New = changed(algorithm, before, after)
	}}
}

// before is a sliding log whose calls are changed, after one whose outcomes are.
func before(what, text string, change func(c *call)) broken {
	return of(SlidingLog, what, text, change, nothing)
}

func after(what, text string, change func(c *call)) broken {
	return of(SlidingLog, what, text, nothing, change)
}

// results is a sliding log whose results are changed, unless there is an error.
func results(what, text string, change func(c *call)) broken {
	return after(what, text, func(c *call) {
		if c.err == nil {
			change(c)
		}
	})
}

// refusals is a sliding log whose refusals are changed.
func refusals(what, text string, change func(c *call)) broken {
	return results(what, text, func(c *call) {
		if !c.Allowed {
			change(c)
		}
	})
}

// made is another limiter than one of the algorithm.
func made(what, text string, algorithm Algorithm, of func(int64, time.Duration) limit.Limiter) broken {
	return broken{what, text, func(s *suite) {
		s.spec = specOf(algorithm)
		s.spec.New = func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
			return of(rate, interval)
		}
	}}
}

// slow is a limiter of an algorithm with a longer interval than it says.
func slow(what, text string, algorithm Algorithm) broken {
	return made(what, text, algorithm, func(rate int64, interval time.Duration) limit.Limiter {
		return newMemory(algorithm, rate, 3*interval)
	})
}

// apart is a Pair of which each handle has a limit.
func apart(text string, algorithm Algorithm) broken {
	return broken{"a limit each", text, func(s *suite) {
		s.spec = specOf(algorithm)
		s.spec.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
			return s.spec.New(t, rate, interval), s.spec.New(t, rate, interval)
		}
	}}
}

// keeps takes permits even if the context of the call ends meanwhile.
func keeps(c *call) {
	select {
	case <-c.ctx.Done():
		if c.err == nil {
			c.Result, c.err = limit.Result{}, c.ctx.Err()
		}
	case <-time.After(time.Millisecond): // as long as a store may take
	}
}

// keyedBy is a Keyed that is changed.
func keyedBy(what, text string, change func(s *keyed)) broken {
	return keyedOf(what, text, func(s *keyed) limiterOf {
		change(s)
		return s.For
	})
}

// keyedOf is another Keyed, on top of a correct one.
func keyedOf(what, text string, change func(s *keyed) limiterOf) broken {
	return broken{what, text, func(s *suite) {
		s.spec = specOf(SlidingLog)
		s.keyed = func(_ *testing.T, rate int64, interval time.Duration) limiterOf {
			return change(newKeyed(rate, interval))
		}
	}}
}

// allBroken are grouped by the check that must reject them: one for each way in which it can fail.
var allBroken = map[string][]broken{
	"n below 1 is an ErrInvalidArgument and takes nothing": {
		before("gives permits", "error <nil>", func(c *call) {
			if c.ignored = c.n < 1; c.ignored {
				c.Allowed, c.err = true, c.m.Release(c.ctx, c.m.rate)
			}
		}),
	},
	"n above the rate is an ErrPermitsExceedRate and takes nothing": {
		before("refuses", "error <nil>", func(c *call) { c.n = min(c.n, c.m.rate) }),
	},
	"a context that has ended takes nothing": {
		before("ignores it", "error <nil>", func(c *call) { c.ctx = context.WithoutCancel(c.ctx) }),
		after("takes a permit", "refuses", func(c *call) {
			if c.err != nil {
				c.takes(1)
			}
		}),
	},
	"an error has no numbers": {
		after("numbers", "zero Result", func(c *call) {
			if c.err != nil {
				c.Limit = c.m.rate
			}
		}),
	},
	"a context that ends during a call keeps nothing": {
		after("keeps permits", "are left", keeps),
		after("gives too much back", "are left", func(c *call) {
			if keeps(c); c.ctx.Err() != nil {
				_ = c.m.Release(context.WithoutCancel(c.ctx), 2*c.n)
			}
		}),
		of(Paced, "keeps permits of a queue", "no permits are left", nothing, keeps),
		of(Paced, "refuses a large request", "want it to grant or to fail",
			func(c *call) { c.ignored = c.n > 1 }, nothing),
		of(Paced, "another error of a queue", "its context has", nothing, func(c *call) {
			if keeps(c); c.err != nil {
				c.err = errors.New("broken pipe")
			}
		}),
		of(SlidingLog, "another error", "its context has",
			func(*call) { time.Sleep(time.Millisecond) },
			func(c *call) {
				if c.err != nil && c.n == 1 {
					c.err = errors.New("broken pipe")
				}
			}),
	},
	"the rate is granted at once, and no more": {
		made("a bucket that is said to be paced", "want it to refuse", Paced,
			func(rate int64, d time.Duration) limit.Limiter { return newMemory(TokenBucket, 2*rate, d) }),
		before("counts calls", "want it to refuse", func(c *call) { c.n = min(c.n, 1) }),
	},
	"several permits are granted all or none": {
		refusals("takes what is there", "refuses", func(c *call) { c.takes(max(1, c.Remaining)) }),
	},
	"a refusal takes nothing": {
		refusals("counts it", "refuses", func(c *call) { c.takes(1) }),
	},
	"Limit and Interval are those of the limiter": {
		refusals("other of a refusal", "want Limit", func(c *call) { c.Limit-- }),
	},
	"Remaining is what is left": {
		refusals("0 if refused", "Remaining is", func(c *call) { c.Remaining = 0 }),
	},
	"RetryAfter is 0 if allowed and above 0 if refused": {
		results("always", "want 0", func(c *call) { c.RetryAfter = c.ResetAfter }),
		results("never", "above 0", func(c *call) { c.RetryAfter = 0 }),
	},
	"after RetryAfter the permits are there": {
		results("rounded down", "after the RetryAfter", func(c *call) { c.RetryAfter -= 1e6 }),
	},
	"before RetryAfter the permits are not there": {
		results("that of all", "RetryAfter was", func(c *call) { c.RetryAfter = c.ResetAfter }),
		refusals("at least 10 ms", "before it was", func(c *call) { c.RetryAfter = max(c.RetryAfter, 10e6) }),
	},
	"ResetAfter is between RetryAfter and the interval": {
		results("before RetryAfter", "not below", func(c *call) { c.ResetAfter = 1e6 }),
	},
	"after ResetAfter all permits are there": {
		results("too short", "after the ResetAfter", func(c *call) { c.ResetAfter -= 1e6 }),
		refusals("too short if refused", "that of a refusal", func(c *call) { c.ResetAfter -= 1e6 }),
	},
	"a limiter that was idle is full and not fuller": {
		before("ends", "want it to grant", func(c *call) {
			if c.m.since.IsZero() {
				c.m.since = time.Now()
			}
			c.ignored = time.Since(c.m.since) > 2*c.m.interval
		}),
	},
	"a Result agrees with itself": {
		results("Remaining above Limit", "between 0", func(c *call) { c.Remaining += c.Limit }),
		results("time below 0", "below 0", func(c *call) { c.RetryAfter-- }),
		refusals("another Name", "Name was", func(c *call) { c.Name = "other" }),
		results("Degraded", "nothing has failed", func(c *call) { c.Degraded = true }),
		results("Each without any", "all of Each", func(c *call) { c.Each = []limit.Result{} }),
		results("Each waits longer", "longest of Each", func(c *call) {
			c.Each = []limit.Result{c.Result}
			c.RetryAfter /= 2
		}),
	},
	"many callers at once get the rate and no more": {
		before("looks, then takes", "callers together", func(c *call) {
			c.Allowed, c.ignored = c.m.used.Load()+c.n <= c.m.rate, true
			time.Sleep(time.Millisecond) // as long as a store may take
			if c.Allowed {
				c.m.used.Add(c.n)
			}
		}),
		of(Paced, "never owes", "callers together", nothing, func(c *call) { _ = c.m.Release(c.ctx, c.n) }),
	},
	"two handles share one limit": {
		apart("Remaining of the other", SlidingLog), apart("want it to refuse", Paced),
	},
	"no interval has more than the algorithm promises": {
		made("a token bucket", "within an interval", SlidingLog,
			func(rate int64, d time.Duration) limit.Limiter { return newMemory(TokenBucket, rate, d) }),
		made("short windows", "want at most 20", FixedWindow,
			func(rate int64, d time.Duration) limit.Limiter { return newMemory(FixedWindow, rate, d/3) }),
	},
	"a refusal has a reason": {
		slow("a long interval", "are refused", SlidingLog), slow("a slow bucket", "are refused", TokenBucket),
		slow("a slow queue", "nothing is owed", Paced), slow("long windows", "are refused", FixedWindow),
	},

	"keys do not know of each other": {
		keyedBy("one limit", "refuses", func(s *keyed) { s.breaks = func(string) string { return "one" } }),
	},
	"an empty key is an ErrInvalidArgument": {
		keyedOf("a limit", "error <nil>", func(s *keyed) limiterOf {
			return func(key string) limit.Limiter { return s.For("key:" + key) }
		}),
	},
	"a strange key is refused or has a limit of its own": {
		keyedBy("trims", "limit of another", func(s *keyed) { s.breaks = strings.TrimSpace }),
		keyedBy("panics", "a panic", func(s *keyed) {
			s.breaks = func(key string) string { return key[:1] + key[1:2] }
		}),
		keyedBy("spoils a later key", "the key", func(s *keyed) { s.spoilt, s.spoils = "a", "a:value" }),
	},
	"many keys have a limit each": {
		keyedBy("forgets", "Remaining of key", func(s *keyed) { s.most = 100 }),
	},
	"keys that were idle are full and not fuller": {
		keyedBy("never forgets", "refuses", func(s *keyed) { s.interval *= 100 }),
	},
	"many callers of some keys at once get the rate of each": {
		keyedOf("makes a key twice", "together", func(s *keyed) limiterOf {
			var all sync.Map
			return func(key string) limit.Limiter {
				return limit.Func(func(ctx context.Context, n int64) (limit.Result, error) {
					m, ok := all.Load(key)
					if !ok {
						time.Sleep(time.Millisecond)
						m = newMemory(SlidingLog, s.rate, s.interval)
						all.Store(key, m)
					}
					return m.(*memory).Allow(ctx, n)
				})
			}
		}),
	},
}

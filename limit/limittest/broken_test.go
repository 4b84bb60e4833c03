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

// withEach is a sliding log whose results have two equal results of limits, which are changed.
func withEach(what, text string, change func(c *call)) broken {
	return results(what, text, func(c *call) {
		one := c.Result
		c.Each = []limit.Result{one, one}
		change(c)
	})
}

// takesOn is a sliding log that takes a permit where it returns an error.
func takesOn(target error) broken {
	return after("takes a permit", "refuses", func(c *call) {
		if errors.Is(c.err, target) {
			c.takes(1)
		}
	})
}

// says is a sliding log that replaces an error by another.
func says(target, other error) broken {
	return after("another error", other.Error(), func(c *call) {
		if errors.Is(c.err, target) {
			c.err = other
		}
	})
}

// tuned is a limiter of an algorithm with wrong numbers.
func tuned(what, text string, algorithm Algorithm, tune func(rate *int64, interval *time.Duration)) broken {
	return made(what, text, algorithm, func(rate int64, interval time.Duration) limit.Limiter {
		tune(&rate, &interval)
		return newMemory(algorithm, rate, interval)
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

// every is a limiter of an algorithm with another interval.
func every(what, text string, algorithm Algorithm, change func(time.Duration) time.Duration) broken {
	return tuned(what, text, algorithm, func(_ *int64, d *time.Duration) { *d = change(*d) })
}

func threefold(d time.Duration) time.Duration { return 3 * d }
func third(d time.Duration) time.Duration     { return d / 3 }

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
	return keyedOf(what, text, func(s *keyed) limit.Keyed {
		change(s)
		return s
	})
}

// keyedOf is another Keyed, on top of a correct one.
func keyedOf(what, text string, change func(s *keyed) limit.Keyed) broken {
	return broken{what, text, func(s *suite) {
		s.spec = specOf(SlidingLog)
		s.keyed = func(_ *testing.T, rate int64, interval time.Duration) limit.Keyed {
			return change(newKeyed(rate, interval))
		}
	}}
}

// confuses is a Keyed that confuses keys.
func confuses(what string, breaks func(key string) string) broken {
	return keyedBy(what, "limit of another", func(s *keyed) { s.breaks = breaks })
}

// allBroken are grouped by the check that must reject them.
var allBroken = map[string][]broken{
	"n below 1 is an ErrInvalidArgument and takes nothing": {
		before("gives permits", "error <nil>", func(c *call) {
			if c.ignored = c.n < 1; c.ignored {
				c.Allowed, c.err = true, c.m.Release(c.ctx, c.m.rate)
			}
		}),
		takesOn(limit.ErrInvalidArgument), says(limit.ErrInvalidArgument, limit.ErrPermitsExceedRate),
	},
	"n above the rate is an ErrPermitsExceedRate and takes nothing": {
		before("refuses", "error <nil>", func(c *call) { c.n = min(c.n, c.m.rate) }),
		before("overflows", "error <nil>", func(c *call) { c.ignored = c.n > 1<<31 }),
		takesOn(limit.ErrPermitsExceedRate), says(limit.ErrPermitsExceedRate, limit.ErrInvalidArgument),
	},
	"a context that has ended takes nothing": {
		before("ignores it", "error <nil>", func(c *call) { c.ctx = context.WithoutCancel(c.ctx) }),
		takesOn(context.Canceled), takesOn(context.DeadlineExceeded),
		says(context.DeadlineExceeded, context.Canceled), says(context.Canceled, errors.New("ended")),
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
		tuned("one more", "want it to refuse", SlidingLog, func(n *int64, _ *time.Duration) { *n++ }),
		tuned("one less", "to grant", SlidingLog, func(n *int64, _ *time.Duration) { *n = max(1, *n-1) }),
		before("counts calls", "want it to refuse", func(c *call) { c.n = min(c.n, 1) }),
	},
	"several permits are granted all or none": {
		refusals("takes what is there", "refuses", func(c *call) { c.takes(max(1, c.Remaining)) }),
		refusals("one left is enough", "grants", func(c *call) { c.Allowed = c.Remaining > 0 }),
	},
	"a refusal takes nothing": {
		refusals("counts it", "refuses", func(c *call) { c.takes(1) }),
		refusals("begins anew", "refuses", func(c *call) {
			out := c.m.rate - c.Remaining
			_ = c.m.Release(c.ctx, out)
			c.takes(out)
		}),
	},
	"Limit and Interval are those of the limiter": {
		results("no Limit", "want Limit", func(c *call) { c.Limit = 0 }),
		results("no Interval", "want Limit", func(c *call) { c.Interval = 0 }),
		refusals("other of a refusal", "want Limit", func(c *call) { c.Limit-- }),
	},
	"Remaining is what is left": {
		results("before the grant", "Remaining is", func(c *call) {
			if c.Allowed {
				c.Remaining += c.n
			}
		}),
		refusals("0 if refused", "Remaining is", func(c *call) { c.Remaining = 0 }),
		refusals("below 0", "Remaining is", func(c *call) { c.Remaining -= c.n }),
	},
	"RetryAfter is 0 if allowed and above 0 if refused": {
		results("always", "want 0", func(c *call) { c.RetryAfter = c.ResetAfter }),
		results("never", "above 0", func(c *call) { c.RetryAfter = 0 }),
	},
	"after RetryAfter the permits are there": {
		results("rounded down", "after the RetryAfter", func(c *call) { c.RetryAfter -= 1e6 }),
		refusals("that of one permit", "after the RetryAfter", func(c *call) {
			if c.Remaining == 0 {
				one, _ := c.m.Allow(c.ctx, 1)
				c.RetryAfter = one.RetryAfter
			}
		}),
	},
	"before RetryAfter the permits are not there": {
		results("the Interval", "RetryAfter was", func(c *call) { c.RetryAfter = c.Interval }),
		results("that of all", "RetryAfter was", func(c *call) { c.RetryAfter = c.ResetAfter }),
		refusals("at least 10 ms", "before it was", func(c *call) { c.RetryAfter = max(c.RetryAfter, 10e6) }),
	},
	"ResetAfter is between RetryAfter and the interval": {
		results("never", "ResetAfter is 0", func(c *call) { c.ResetAfter = 0 }),
		results("a point in time", "ResetAfter is", func(c *call) { c.ResetAfter += 1e18 }),
		results("before RetryAfter", "not below", func(c *call) { c.ResetAfter = 1e6 }),
	},
	"after ResetAfter all permits are there": {
		results("too short", "after the ResetAfter", func(c *call) { c.ResetAfter -= 1e6 }),
		refusals("too short if refused", "that of a refusal", func(c *call) { c.ResetAfter -= 1e6 }),
	},
	"a limiter that was idle is full and not fuller": {
		of(TokenBucket, "has no top", "want it to refuse", func(c *call) {
			if idle := time.Since(c.m.since); !c.m.since.IsZero() && idle > c.m.interval {
				c.m.Releaser = newMemory(TokenBucket, 2*c.m.rate, c.m.interval).Releaser
			}
			c.m.since = time.Now()
		}, nothing),
		before("ends", "want it to grant", func(c *call) {
			if c.m.since.IsZero() {
				c.m.since = time.Now()
			}
			c.ignored = time.Since(c.m.since) > 2*c.m.interval
		}),
	},
	"a Result agrees with itself": {
		results("Remaining below 0", "between 0", func(c *call) { c.Remaining -= c.n }),
		results("Remaining above Limit", "between 0", func(c *call) { c.Remaining += c.Limit }),
		results("time below 0", "below 0", func(c *call) { c.RetryAfter-- }),
		refusals("another Name", "Name was", func(c *call) { c.Name = "other" }),
		results("Degraded", "nothing has failed", func(c *call) { c.Degraded = true }),
		results("Each without any", "all of Each", func(c *call) { c.Each = []limit.Result{} }),
		withEach("Each of a refusal allowed", "all of Each", func(c *call) {
			c.Each[0].Allowed, c.Each[1].Allowed = true, true
		}),
		withEach("Each waits longer", "longest of Each", func(c *call) { c.RetryAfter /= 2 }),
		withEach("Each has Remaining below 0", "between 0", func(c *call) { c.Each[0].Remaining = -1 }),
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
		before("refuses if busy", "callers together", func(c *call) {
			if c.ignored = !c.m.busy.TryLock(); !c.ignored {
				defer c.m.busy.Unlock()
				time.Sleep(time.Millisecond)
			}
		}),
	},
	"two handles share one limit": {
		apart("Remaining of the other", SlidingLog), apart("want it to refuse", Paced),
	},
	"no interval has more than the algorithm promises": {
		made("a fixed window", "within an interval", SlidingLog,
			func(rate int64, d time.Duration) limit.Limiter { return newMemory(FixedWindow, rate, d) }),
		made("a token bucket", "within an interval", SlidingLog,
			func(rate int64, d time.Duration) limit.Limiter { return newMemory(TokenBucket, rate, d) }),
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

	"keys do not know of each other": {
		keyedBy("one limit", "refuses", func(s *keyed) { s.breaks = func(string) string { return "one" } }),
	},
	"an empty key is an ErrInvalidArgument": {
		keyedOf("a limit", "error <nil>", func(s *keyed) limit.Keyed {
			return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				return s.Allow(ctx, "key:"+key, n)
			})
		}),
	},
	"a strange key is refused or has a limit of its own": {
		confuses("trims", strings.TrimSpace), confuses("folds", strings.ToLower),
		confuses("cuts", func(key string) string { return key[:min(len(key), 256)] }),
		confuses("ends at NUL", func(key string) string { return strings.Split(key, "\x00")[0] }),
		confuses("the hash tag", func(key string) string {
			_, tag, _ := strings.Cut(key, "{")
			if tag, _, ok := strings.Cut(tag, "}"); ok && tag != "" {
				return tag
			}
			return key
		}),
		confuses("other bytes", func(key string) string { return strings.ToValidUTF8(key, "\ufffd") }),
		keyedBy("panics", "a panic", func(s *keyed) {
			s.breaks = func(key string) string { return key[:1] + key[1:2] }
		}),
		keyedBy("spoils a key", "the key", func(s *keyed) { s.spoilt, s.spoils = "a", "a:value" }),
		keyedBy("another error", "want a limit or", func(s *keyed) { s.spoilt, s.spoils = "a\n", "a\n" }),
	},
	"many keys have a limit each": {
		keyedBy("forgets", "Remaining of key", func(s *keyed) { s.most = 100 }),
	},
	"keys that were idle are full and not fuller": {
		keyedBy("never forgets", "refuses", func(s *keyed) { s.interval *= 100 }),
	},
	"many callers of some keys at once get the rate of each": {
		keyedOf("makes a key twice", "together", func(s *keyed) limit.Keyed {
			var all sync.Map
			return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
				m, ok := all.Load(key)
				if !ok {
					time.Sleep(time.Millisecond)
					m = newMemory(SlidingLog, s.rate, s.interval)
					all.Store(key, m)
				}
				return m.(*memory).Allow(ctx, n)
			})
		}),
	},
}

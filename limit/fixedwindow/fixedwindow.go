// Package fixedwindow counts the permits of a window of time: the simplest limiter, and the cheapest.
// A Window begins with the first permit taken, lasts for an interval, and grants the rate. Then all
// permits come back at once. A Calendar has windows that begin at midnight, on Monday or on the first.
//
// The flaw is well known: around the end of a window it grants up to twice the rate within an
// interval, to callers that take the rate at the end of one window and again at the beginning of the
// next. If that matters, use package slidingwindow or tokenbucket.
package fixedwindow

import (
	"embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Window is a limit of Rate permits in a window of Interval.
type Window struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped
}

// InMemory returns a limiter in this process. Later calls drop the windows of keys once they have ended. The
// error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (w Window) InMemory(opts ...limit.Option) (limit.Ledger, error) {
	return form.Ledger(form.InMemory(w.rule, opts))
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:fixedwindow, or {name:key}:fixedwindow for a key of For, with the permits taken, and the time and
// the length of the window. Redis drops the key when the window ends. A lost reply is an error, and may cost
// permits until then. The error is that of InMemory, also for a nil rdb or an unusable name.
//
// Limiters with other numbers may use the same name, as during a deploy. They share one window, which
// lasts for the longest of their intervals. After a change to a shorter interval, the last long window
// still runs to its end.
func (w Window) OnRedis(rdb redis.UniversalClient, name string) (limit.Ledger, error) {
	return form.Ledger(form.OnRedis(w.rule, rdb, name))
}

//go:embed *.lua
var files embed.FS

var script = redisx.Load(files, "take.lua", false)

func (w Window) rule() (form.Rule[state], error) {
	numbers, err := form.Counted("fixedwindow", "Rate", w.Rate, "Interval", w.Interval)
	c := counter{w.Rate, numbers.Interval.Milliseconds()}
	return form.Rule[state]{
		Numbers: numbers, Take: c.take, Script: script, Args: []any{c.rate, c.interval},
	}, err
}

// A counter is the rule of a Window.
type counter struct{ rate, interval int64 }

// A state is a window. Its end is in ms, as Redis expires keys; the end of a quota is in µs.
type state struct{ end, used int64 }

// take decides as take.lua does.
func (c counter) take(s *state, now, n, stamp int64) form.Decision {
	now /= 1000
	switch left := s.end - now; {
	case left <= 0: // the next permit begins a new window
		*s = state{now + c.interval, 0}
	case left > c.interval: // the clock was set back
		s.end = now + c.interval
	}
	return s.take(c.rate, (s.end-now)*1000, n, stamp, stamp/1000 != s.end)
}

// take takes n permits of a window that ends in left µs, or gives them back. gone reports whether a stamp is
// that of another window.
func (s *state) take(rate, left, n, stamp int64, gone bool) form.Decision {
	charge := stamp == form.Charge
	switch {
	case charge:
		n = min(n, form.MostPermits-s.used)
	case stamp > 0 && gone:
		n = 0
	}
	allowed := charge || n < 0 || max(n, 1) <= rate-s.used
	if allowed {
		s.used = max(0, s.used+n)
	}
	d := form.Decision{Allowed: allowed, Remaining: rate - s.used}
	if s.used > 0 {
		d.Reset = left
	} else {
		s.end = 0
	}
	if !allowed {
		d.Retry = d.Reset
	}
	return d
}

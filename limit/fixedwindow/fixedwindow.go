// Package fixedwindow counts the permits of a window of time: the simplest limiter, and
// the cheapest one. A window begins with the first permit that is taken, lasts for an
// interval, and gives out the rate. Then all permits are back at once.
//
// Its flaw is known: around the end of a window it gives out up to twice the rate within
// an interval, for those who take the rate at the end of one window and again at the
// beginning of the next. Where that matters, take package slidingwindow or tokenbucket.
package fixedwindow

import (
	"cmp"
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

// InMemory returns the limiter of this process. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods.
func (w Window) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return form.InMemory(w.rule, opts)
}

// InMemoryKeyed returns a limiter with a window for each key, in this process. A window
// that is over is dropped at one of the next calls.
func (w Window) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return form.InMemoryKeyed(w.rule, opts)
}

// OnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its key
// is {name}:fixedwindow, the permits taken, and the time and the length of the window, which
// Redis drops when the window ends. A reply that is lost is an error, and may cost permits until then.
//
// Others may have other numbers under the same name, as during a deploy. All count in one
// window, which lasts for the longest interval of those who took of it. So after a change to
// a shorter interval the last window of the longer one goes to its end.
func (w Window) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return form.OnRedis(w.rule, rdb, name)
}

// OnRedisKeyed is OnRedis with a window for each key, under {name:key}:fixedwindow.
func (w Window) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return form.OnRedisKeyed(w.rule, rdb, name)
}

//go:embed take.lua
var files embed.FS

var script = redisx.Load(files, "take.lua", false)

func (w Window) rule() (form.Rule[state], error) {
	if err := cmp.Or(form.Permits("Rate", w.Rate), form.Span("Interval", w.Interval)); err != nil {
		return form.Rule[state]{}, err
	}
	ms := w.Interval.Milliseconds()
	interval := time.Duration(ms) * time.Millisecond
	return form.Rule[state]{
		Numbers: form.Numbers{Algorithm: "fixedwindow", Limit: w.Rate, Interval: interval, Rest: interval},
		Take:    counter{w.Rate, ms}.take,
		Script:  script,
		Args:    []any{w.Rate, ms},
	}, nil
}

// A counter is the rule.
type counter struct{ rate, interval int64 }

// A state is a window, in ms, as keys of Redis expire in ms.
type state struct{ end, used int64 }

// take is take.lua.
func (c counter) take(s *state, now, n int64) form.Answer {
	now /= 1000
	switch left := s.end - now; {
	case left <= 0: // a new window begins with the next permit
		*s = state{now + c.interval, 0}
	case left > c.interval: // the clock was set back
		s.end = now + c.interval
	}
	allowed := n <= c.rate-s.used
	if allowed {
		s.used = max(0, s.used+n)
	}
	a := form.Answer{Allowed: allowed, Remaining: c.rate - s.used}
	if s.used > 0 {
		a.Reset = (s.end - now) * 1000
	} else {
		s.end = 0
	}
	if !allowed {
		a.Retry = a.Reset
	}
	return a
}

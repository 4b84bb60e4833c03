// Package leakybucket limits by a bucket with a hole, from which water leaks at a rate.
// There are two things of that name, and both are here.
//
// A [Meter] refuses: a permit pours a unit of water in, and a permit for which there is
// no room is refused. It gives out what a token bucket of the same numbers gives out.
//
// A [Queue] waits: requests stand in it as the water does, and leave one by one at a
// constant pace. It protects what must not see a burst at all.
package leakybucket

import (
	"cmp"
	"embed"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Meter is a limit of Capacity permits at once and of Rate permits in an Interval. In
// an interval it gives out at most Capacity + Rate. Result.Limit is Capacity, and
// Result.Interval is the time in which a full bucket leaks out: at most 3,660 days.
//
// If the clock is set back, what has leaked out meanwhile is in the bucket again; it has
// leaked out after twice Result.Interval at the latest. If the clock is set forward, one
// Capacity more is there at most.
type Meter struct {
	Capacity int64         // 1 to 2^40
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
}

// InMemory returns the limiter of this process. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods.
func (m Meter) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return form.InMemory(m.rule, opts)
}

// InMemoryKeyed returns a limiter with a bucket for each key, in this process. A bucket
// that has leaked out is dropped at one of the next calls.
func (m Meter) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return form.InMemoryKeyed(m.rule, opts)
}

// OnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its key
// is {name}:leakybucket, which Redis drops when the bucket has leaked out. A reply that
// is lost is an error, and may cost permits until they have leaked out.
//
// The numbers may differ from one process to the next, as during a deploy: the water
// stays. One with a smaller Capacity refuses until enough has leaked out.
func (m Meter) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return form.OnRedis(m.rule, rdb, name)
}

// OnRedisKeyed is OnRedis with a bucket for each key, under {name:key}:leakybucket.
func (m Meter) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return form.OnRedisKeyed(m.rule, rdb, name)
}

//go:embed *.lua
var files embed.FS

var pour = redisx.Load(files, "pour.lua", false)

func (m Meter) rule() (form.Rule[water], error) {
	interval, empty, err := drain(m.Capacity, m.Rate, m.Interval)
	if err != nil {
		return form.Rule[water]{}, err
	}
	return form.Rule[water]{
		Numbers: form.Numbers{Algorithm: "leakybucket", Limit: m.Capacity, Interval: empty,
			Rest: empty + time.Millisecond},
		Take:   hole{float64(m.Capacity), float64(m.Rate), float64(interval)}.pour,
		Script: pour,
		Args:   []any{m.Capacity, m.Rate, interval},
	}, nil
}

// drain returns the interval in µs and the time in which a full bucket leaves, or an error if a
// number is out of its bounds.
func drain(capacity, rate int64, span time.Duration) (interval int64, empty time.Duration, err error) {
	err = cmp.Or(form.Permits("Capacity", capacity), form.Permits("Rate", rate), form.Span("Interval", span))
	if err != nil {
		return 0, 0, err
	}
	interval = span.Microseconds()
	us := math.Ceil(float64(capacity) * float64(interval) / float64(rate))
	if us > float64(form.MostTime.Microseconds()) {
		return 0, 0, fmt.Errorf("%w: Capacity is %d, and takes %.3g s, must take at most %v",
			limit.ErrInvalidArgument, capacity, us/1e6, form.MostTime)
	}
	return interval, time.Duration(us) * time.Microsecond, nil
}

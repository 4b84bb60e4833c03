// Package leakybucket limits by a bucket with a hole, from which water leaks at a rate. Two different
// limiters have that name; the package has both.
//
// A [Meter] refuses: a permit pours in a unit of water, and is refused if there is no room. It grants
// the same requests as a token bucket with the same numbers.
//
// A [Queue] waits: requests collect in it like water, and leave one by one at a constant pace. It
// protects services that must not see any burst.
package leakybucket

import (
	"embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Meter is a limit of Capacity permits at once and of Rate permits in an Interval. In an interval it
// grants at most Capacity + Rate. Result.Limit is Capacity, and Result.Interval is the time in which a
// full bucket drains: at most 3,660 days.
//
// If the clock is set back, water that leaked out in that time is in the bucket again; it has leaked out
// after twice Result.Interval at the latest. If the clock is set forward, the Meter grants at most one
// Capacity more.
type Meter struct {
	Capacity int64         // 1 to 2^40
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
}

// InMemory returns a limiter in this process. Later calls drop the buckets of keys once they are empty. The
// error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (m Meter) InMemory(opts ...limit.Option) (limit.Ledger, error) {
	return form.Ledger(form.InMemory(m.rule, opts))
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:leakybucket, or {name:key}:leakybucket for a key of For. Redis drops the key when the bucket is
// empty. A lost reply is an error, and may cost permits until they have leaked out. The error is that of
// InMemory, also for a nil rdb or an unusable name.
//
// The numbers may differ between processes, as during a deploy: the water stays. A limiter with a smaller
// Capacity refuses until enough has leaked out.
func (m Meter) OnRedis(rdb redis.UniversalClient, name string) (limit.Ledger, error) {
	return form.Ledger(form.OnRedis(m.rule, rdb, name))
}

//go:embed *.lua
var files embed.FS

var pour = redisx.Load(files, "pour.lua", false)

func (m Meter) rule() (form.Rule[water], error) {
	numbers, err := filled("leakybucket", m.Capacity, m.Rate, m.Interval)
	interval := m.Interval.Microseconds()
	h := hole{float64(m.Capacity), float64(m.Rate), float64(interval)}
	return form.Rule[water]{
		Numbers: numbers, Take: h.pour, Owes: h.owes,
		Script: pour, Args: []any{m.Capacity, m.Rate, interval},
	}, err
}

// filled returns the Numbers of a bucket with a whole rate.
func filled(algorithm string, capacity, rate int64, interval time.Duration) (form.Numbers, error) {
	if err := form.Permits("Rate", rate); err != nil {
		return form.Numbers{}, err
	}
	return form.Filled(algorithm, capacity, float64(rate), interval)
}

// Package tokenbucket gives out what has been saved: tokens drop into a bucket one by
// one, at a rate, until it is full. A permit is a token. So a burst of the capacity is
// let through after a rest, and the rate for ever. It is the limiter for traffic that
// comes in bursts, as that of users and of API clients.
//
// In an interval it gives out what was in the bucket and what drops into it meanwhile:
// at most Capacity + Rate permits. Where that matters, take package slidingwindow.
//
// A [Bucket] refuses. A [Smooth] has the next caller pay for what the last one took, and
// spreads permits evenly, as the RateLimiter of Guava.
//
// The arithmetic of a Bucket is that of golang.org/x/time/rate, to the last bit, in
// memory and in Lua; a test compares them. The limiter of that package is not inside: its
// numbers for a Result take a second lock, between which others may come, and that costs it
// a fifth. Two things differ. Times are whole microseconds. And if the clock is set back, the
// tokens that came with that time leave with it, so that they do not come twice.
package tokenbucket

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

// A Bucket is a limit of Capacity permits at once and of Rate permits in an Interval.
// Result.Limit is Capacity, and Result.Interval is the time in which an empty bucket
// fills: 1 µs to 3,660 days.
//
// If the clock is set back, a Bucket has fewer permits until it has come as far again,
// but is full after twice Result.Interval at the latest. If the clock is set forward, it
// has what would have come meanwhile: one Capacity more at most.
type Bucket struct {
	Capacity int64         // 1 to 2^40
	Rate     float64       // above 0, at most 2^40; 0.5 is a permit in two intervals
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
}

// InMemory returns the limiter of this process. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods.
func (b Bucket) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return form.InMemory(b.rule, opts)
}

// InMemoryKeyed returns a limiter with a bucket for each key, in this process. A bucket
// that is full again is dropped at one of the next calls.
func (b Bucket) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return form.InMemoryKeyed(b.rule, opts)
}

// OnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its key
// is {name}:tokenbucket, which Redis drops when the bucket is full. A reply that is lost
// is an error, and may cost permits until they have come back.
//
// The numbers may change from one process to the next: what is in the bucket stays, as
// far as it has room. A bucket that is full for one process is full for all, also for one
// with a larger Capacity.
func (b Bucket) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return form.OnRedis(b.rule, rdb, name)
}

// OnRedisKeyed is OnRedis with a bucket for each key, under {name:key}:tokenbucket.
func (b Bucket) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return form.OnRedisKeyed(b.rule, rdb, name)
}

//go:embed take.lua
var files embed.FS

var script = redisx.Load(files, "take.lua", false)

func (b Bucket) rule() (form.Rule[state], error) {
	if err := cmp.Or(form.Permits("Capacity", b.Capacity), pace(b.Rate, b.Interval)); err != nil {
		return form.Rule[state]{}, err
	}
	interval := b.Interval.Truncate(time.Microsecond)
	fill := math.Ceil(float64(b.Capacity) * float64(interval.Microseconds()) / b.Rate)
	if fill > float64(form.MostTime.Microseconds()) {
		return form.Rule[state]{}, fmt.Errorf("%w: Capacity is %d, fills in %.3g s, must fill in at most %v",
			limit.ErrInvalidArgument, b.Capacity, fill/1e6, form.MostTime)
	}
	full := time.Duration(max(1, fill)) * time.Microsecond
	perSecond := b.Rate / interval.Seconds()
	return form.Rule[state]{
		Numbers: form.Numbers{Algorithm: "tokenbucket", Limit: b.Capacity, Interval: full,
			Rest: full + time.Millisecond},
		Take:   newBucket(float64(b.Capacity), perSecond).take,
		Script: script,
		Args:   []any{b.Capacity, perSecond},
	}, nil
}

// pace returns an error unless permits can come at a rate.
func pace(rate float64, interval time.Duration) error {
	if !(rate > 0 && rate <= form.MostPermits) { // also NaN
		return fmt.Errorf("%w: Rate is %v, must be above 0 and at most 2^40", limit.ErrInvalidArgument, rate)
	}
	return form.Span("Interval", interval)
}

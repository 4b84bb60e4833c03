// Package tokenbucket grants saved permits: tokens drop into a bucket one by one, at a rate, until it is
// full, and each permit takes a token. After a pause it grants a burst of the capacity, and in the long
// run the rate. It suits bursty traffic, such as that of users and API clients.
//
// In an interval it grants the tokens in the bucket and those that drop in meanwhile: at most
// Capacity + Rate permits. If that is too many, use package slidingwindow.
//
// A [Bucket] refuses. A [Smooth] makes the next caller pay for the permits of the last one, and spreads
// permits evenly, as the RateLimiter of Guava does.
//
// The arithmetic of a Bucket is that of golang.org/x/time/rate, to the last bit, in memory and in Lua; a test
// compares them. A Bucket does not wrap that package's limiter, because the numbers of a Result would need a
// second lock, and other callers could come before it. Two things differ: times are whole microseconds; and
// if the clock is set back, the tokens of that time are removed, so that they do not come twice.
package tokenbucket

import (
	"embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Bucket is a limit of Capacity permits at once and of Rate permits in an Interval. Result.Limit is
// Capacity, and Result.Interval is the time in which an empty bucket fills: 1 µs to 3,660 days.
//
// If the clock is set back, a Bucket has fewer permits until the clock has caught up, but is full after
// twice Result.Interval at the latest. If the clock is set forward, the Bucket gains the tokens of that
// time: at most one Capacity more.
type Bucket struct {
	Capacity int64         // 1 to 2^40
	Rate     float64       // above 0, at most 2^40; 0.5 is a permit in two intervals
	Interval time.Duration // 1 ms to 3,660 days; a part of a microsecond is dropped
}

// InMemory returns a limiter in this process. Later calls drop the buckets of keys once they are full again.
// The error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (b Bucket) InMemory(opts ...limit.Option) (limit.Ledger, error) {
	return form.Ledger(form.InMemory(b.rule, opts))
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:tokenbucket, or {name:key}:tokenbucket for a key of For. Redis drops the key when the bucket is
// full. A lost reply is an error, and may cost permits until they have come back. The error is that of
// InMemory, also for a nil rdb or an unusable name.
//
// The numbers may differ between processes, as during a deploy: tokens stay if the bucket has room. A
// bucket that is full for one process is full for all, even with a larger Capacity.
func (b Bucket) OnRedis(rdb redis.UniversalClient, name string) (limit.Ledger, error) {
	return form.Ledger(form.OnRedis(b.rule, rdb, name))
}

//go:embed take.lua
var files embed.FS

var script = redisx.Load(files, "take.lua", false)

func (b Bucket) rule() (form.Rule[state], error) {
	if err := positive(b.Rate); err != nil {
		return form.Rule[state]{}, err
	}
	numbers, err := form.Filled("tokenbucket", b.Capacity, b.Rate, b.Interval)
	perSecond := b.Rate / b.Interval.Truncate(time.Microsecond).Seconds()
	r := newBucket(float64(b.Capacity), perSecond)
	return form.Rule[state]{
		Numbers: numbers, Take: r.take, Owes: r.owes,
		Script: script, Args: []any{b.Capacity, perSecond},
	}, err
}

// positive returns an error unless permits can come at a rate.
func positive(rate float64) error {
	if !(rate > 0 && rate <= form.MostPermits) { // also NaN
		return fmt.Errorf("%w: Rate is %v, must be above 0 and at most 2^40", limit.ErrInvalidArgument, rate)
	}
	return nil
}

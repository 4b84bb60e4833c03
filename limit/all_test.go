package limit_test

import (
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// An algorithm is one of all that have a form in memory and one on Redis.
type algorithm struct {
	name   string
	of     func(rate int64, interval time.Duration) formtest.Algorithm
	worst  int64         // permits in any interval, as a multiple of the rate
	atOnce int64         // how many calls of one permit are granted at one moment; 0 is the rate
	grain  time.Duration // how exactly memory and Redis agree
}

// burst returns how many of a rate are granted at once, when they are asked for one by one.
func (a algorithm) burst(rate int64) int64 {
	if a.atOnce > 0 {
		return a.atOnce
	}
	return rate
}

// algorithms are all of them.
var algorithms = []algorithm{
	{
		name: "fixedwindow.Window", worst: 2, grain: time.Millisecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return fixedwindow.Window{Rate: rate, Interval: interval}
		},
	},
	{
		name: "slidingwindow.Log", worst: 1, grain: time.Microsecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return slidingwindow.Log{Rate: rate, Interval: interval}
		},
	},
	{
		name: "slidingwindow.Counter", worst: 2, grain: time.Microsecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return slidingwindow.Counter{Rate: rate, Interval: interval}
		},
	},
	{
		name: "tokenbucket.Bucket", worst: 2, grain: time.Microsecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return tokenbucket.Bucket{Capacity: rate, Rate: float64(rate), Interval: interval}
		},
	},
	{
		name: "leakybucket.Meter", worst: 2, grain: time.Microsecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return leakybucket.Meter{Capacity: rate, Rate: rate, Interval: interval}
		},
	},
	{
		name: "leakybucket.Queue", worst: 2, atOnce: 1, grain: time.Microsecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return leakybucket.Queue{Rate: rate, Interval: interval, Capacity: rate}
		},
	},
	{
		name: "concurrency.Limit", worst: 1, grain: time.Microsecond,
		of: func(rate int64, interval time.Duration) formtest.Algorithm {
			return concurrency.Limit{Most: rate, Lease: interval}
		},
	},
}

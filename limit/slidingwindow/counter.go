package slidingwindow

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Counter is a limit of about Rate permits in any Interval.
//
// Time is cut into parts of Interval/Parts, which begin at multiples of that since 1970.
// The interval up to now has the newest parts, and a rest of the oldest one. The permits
// of that one count by the share that is left of it, rounded up, as if they had been taken
// evenly. With one part this is the well-known sliding window of two counters.
//
// So a permit comes back, little by little, between a part before its interval has passed
// and a part after that. The bound: an interval less a part has no more than Rate, for the
// interval up to now has all the parts that it touches, and they count in full. The
// part before those may hold up to Rate that were all taken at its end. Then they
// count for less than they are: an interval has less than twice Rate. To get that much, a
// burst of the rate must hit the end of a part, and what comes back must be taken at once.
//
// The errors that were measured with a Rate of 1,000, and half more requests than that: what
// the worst interval has above Rate, and what is granted above what a Log grants, in
// percent. Bursts are of 1 to 1,000 permits. Who is greedy takes the rate at the end of
// a part, and every 100 µs what has come back.
//
//	Parts         1     10    100         1     10    100
//	steady      0.1    0.1    0.1      -0.1   -0.1    0.0
//	random      1.1    1.5    0.5      -0.2   -0.1    0.0
//	bursty     63.4   21.2   24.6       4.0    0.4    0.2
//	greedy     99.9   99.8   98.9      -0.1   -0.1   -0.1
//
// Where bursts must not pass, take a Log. Release gives back the newest permits first.
type Counter struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped

	// Parts is the number of parts of the interval, 1 to 100. 0 is 10.
	Parts int
}

// InMemory returns the limiter of this process. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods.
func (c Counter) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return form.InMemory(c.rule, opts)
}

// InMemoryKeyed returns a limiter with counts for each key, in this process. Those of a
// key that was idle for an interval and a part are dropped at one of the next calls.
func (c Counter) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return form.InMemoryKeyed(c.rule, opts)
}

// OnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its key
// is {name}:slidingcounter, a text of some bytes for each part, which Redis drops when
// all permits are back. A text that nobody can read counts as a rate that was just taken.
// A reply that is lost is an error, and may cost permits for as long.
func (c Counter) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return form.OnRedis(c.rule, rdb, name)
}

// OnRedisKeyed is OnRedis with counts for each key, under {name:key}:slidingcounter.
func (c Counter) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return form.OnRedisKeyed(c.rule, rdb, name)
}

var counterScript = redisx.Load(files, "counter.lua", false)

const (
	defaultParts = 10
	mostParts    = 100
)

func (c Counter) rule() (form.Rule[counts], error) {
	if err := cmp.Or(form.Permits("Rate", c.Rate), form.Span("Interval", c.Interval)); err != nil {
		return form.Rule[counts]{}, err
	}
	if c.Parts < 0 || c.Parts > mostParts {
		return form.Rule[counts]{}, fmt.Errorf("%w: Parts is %d, must be 0 to %d", limit.ErrInvalidArgument,
			c.Parts, mostParts)
	}
	parts := int64(c.Parts)
	if parts == 0 {
		parts = defaultParts
	}
	interval := c.Interval.Truncate(time.Millisecond)
	r := counter{c.Rate, (interval.Microseconds() + parts - 1) / parts, parts}
	return form.Rule[counts]{
		Numbers: form.Numbers{
			Algorithm: "slidingcounter", Limit: c.Rate, Interval: interval,
			Rest: time.Duration((parts+1)*r.width) * time.Microsecond,
		},
		Take:   r.take,
		Script: counterScript,
		Args:   []any{r.rate, r.width, r.parts},
	}, nil
}

// A counter is the rule. The width of a part is in µs; that of them all may be some µs
// longer than the interval.
type counter struct{ rate, width, parts int64 }

// counts are the permits of the parts of time: those of the newest part, of the one before
// it, and so on. The last one is the part that the interval covers in part.
type counts struct {
	newest int64 // the number of the newest part: parts begin at its multiples of the width
	of     []int64
	full   int64 // the sum without the last
}

// take is counter.lua.
func (c counter) take(s *counts, now, n int64) form.Answer {
	newest, offset := now/c.width, now%c.width
	if offset < 0 { // before 1970
		newest, offset = newest-1, offset+c.width
	}
	s.turn(newest, c.parts)
	last := c.weighed(s.of[c.parts], offset)
	used := s.full + last
	a := form.Answer{Allowed: n <= c.rate-used}
	switch {
	case n < 0 && used <= -n:
		clear(s.of)
		s.full, last = 0, 0
	case n < 0:
		if rest := s.giveBack(-n); rest > 0 {
			last -= rest
			s.of[c.parts] = int64(math.Floor(float64(last) / c.weight(offset)))
		}
	case a.Allowed:
		s.of[0] += n
		s.full += n
	default:
		a.Retry = c.retry(s, n) - offset
	}
	a.Remaining = c.rate - s.full - last
	for age, permits := range s.of {
		if permits > 0 {
			a.Reset = (c.parts+1-int64(age))*c.width - offset
			break
		}
	}
	return a
}

// weight returns the share of the oldest part that the interval covers. Redis has floats
// only, so these are floats, too, in the same order.
func (c counter) weight(offset int64) float64 { return float64(c.width-offset) / float64(c.width) }

// weighed returns the permits of the oldest part that count.
func (c counter) weighed(permits, offset int64) int64 {
	if permits == 0 {
		return 0
	}
	return int64(math.Ceil(float64(permits) * c.weight(offset)))
}

// retry returns when n permits are there, in µs from the beginning of the newest part.
func (c counter) retry(s *counts, n int64) int64 {
	full := s.full
	for later := range c.parts + 1 {
		oldest := s.of[c.parts-later]
		if later > 0 {
			full -= oldest
		}
		if room := c.rate - n - full; room >= 0 {
			return later*c.width + c.until(oldest, room)
		}
	}
	return (c.parts + 1) * c.width // not reached: n is at most the rate
}

// until returns the first offset at which the oldest part counts for no more than room.
// Floats are so exact that it is the calculated one, or one of the next two.
func (c counter) until(oldest, room int64) int64 {
	if oldest <= room {
		return 0
	}
	offset := int64(math.Floor(float64(c.width) - float64(room)*float64(c.width)/float64(oldest)))
	for range 4 {
		if c.weighed(oldest, offset) <= room {
			break
		}
		offset++
	}
	return offset
}

// turn makes a part the newest. Where the clock was set back, what is later counts for it.
func (s *counts) turn(newest, parts int64) {
	if s.of == nil {
		s.of, s.newest = make([]int64, parts+1), newest
	}
	switch passed := newest - s.newest; {
	case passed == 0:
		return
	case passed > parts:
		clear(s.of)
	case passed > 0:
		copy(s.of[passed:], s.of)
		clear(s.of[:passed])
	default:
		back := min(-passed, parts)
		for age := range back {
			s.of[back] = min(form.MostPermits, s.of[back]+s.of[age])
		}
		rest := copy(s.of, s.of[back:])
		clear(s.of[rest:])
	}
	s.newest, s.full = newest, 0
	for _, permits := range s.of[:parts] {
		s.full += permits
	}
}

// giveBack gives back permits, the newest first, but none of the oldest part. It returns
// how many are still to be given back.
func (s *counts) giveBack(n int64) int64 {
	for age := range s.of[:len(s.of)-1] {
		back := min(n, s.of[age])
		s.of[age] -= back
		s.full -= back
		n -= back
	}
	return n
}

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
// It divides time into parts of Interval/Parts, starting at multiples of that since 1970. The interval up
// to now covers the newest parts and a share of the oldest. The permits of the oldest part count by that
// share, rounded up, as if they had been taken evenly. With one part this is the well-known sliding
// window of two counters.
//
// So a permit comes back gradually, from a part before its interval has passed to a part after that. The
// bound: an interval less a part has at most Rate, because the interval up to now covers all the parts
// that it touches, and they count in full. The part before them may hold up to Rate, all taken at its end
// and then undercounted: an interval has less than twice Rate. Only a burst of the rate at the end of a
// part, with callers that take permits as soon as they come back, gets that much.
//
// Measured errors in percent, with a Rate of 1,000 and 1.5 times as many requests: permits of the worst
// interval above Rate, and all permits granted above those of a Log. Bursts have 1 to 1,000 permits.
// Greedy callers take the rate at the end of a part, and returned permits every 100 µs.
//
//	Parts         1     10    100         1     10    100
//	steady      0.1    0.1    0.1      -0.1   -0.1    0.0
//	random      1.1    1.5    0.5      -0.2   -0.1    0.0
//	bursty     63.4   21.2   24.6       4.0    0.4    0.2
//	greedy     99.9   99.8   98.9      -0.1   -0.1   -0.1
//
// If bursts must not pass, use a Log. Release gives back the newest permits first.
type Counter struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped

	// Parts is the number of parts of the interval, 1 to 100. 0 means 10.
	Parts int
}

// InMemory returns a limiter in this process. When a key has not been used for an interval and a part, one
// of the next calls drops its counts. The error is a limit.ErrInvalidArgument if a field is out of its
// bounds.
func (c Counter) InMemory(opts ...limit.Option) (limit.Ledger, error) {
	return form.Ledger(form.InMemory(c.rule, opts))
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:slidingcounter, or {name:key}:slidingcounter for a key of For, a text of some bytes for each part,
// which Redis drops when all permits are back. An unreadable text counts as if the whole rate had just been
// taken. A lost reply is an error, and may cost permits for an interval and a part. The error is that of
// InMemory, also for a nil rdb or an unusable name.
func (c Counter) OnRedis(rdb redis.UniversalClient, name string) (limit.Ledger, error) {
	return form.Ledger(form.OnRedis(c.rule, rdb, name))
}

var counterScript = redisx.Load(files, "counter.lua", false)

const (
	defaultParts = 10
	mostParts    = 100
)

func (c Counter) rule() (form.Rule[counts], error) {
	numbers, err := form.Counted("slidingcounter", "Rate", c.Rate, "Interval", c.Interval)
	parts := int64(cmp.Or(c.Parts, defaultParts))
	if err == nil && (parts < 0 || parts > mostParts) {
		err = fmt.Errorf("%w: Parts is %d, must be 0 to %d", limit.ErrInvalidArgument, c.Parts, mostParts)
	}
	if err != nil {
		return form.Rule[counts]{}, err
	}
	r := counter{c.Rate, (numbers.Interval.Microseconds() + parts - 1) / parts, parts}
	numbers.Idle = time.Duration((parts+1)*r.width) * time.Microsecond
	return form.Rule[counts]{
		Numbers: numbers, Take: r.take, Script: counterScript, Args: []any{r.rate, r.width, r.parts},
	}, nil
}

// A counter is the rule of a Counter. The width of a part is in µs; all parts may be some µs longer than
// the interval.
type counter struct{ rate, width, parts int64 }

// counts are the permits of the parts, from the newest to the oldest. The interval covers some of the
// oldest.
type counts struct {
	newest int64 // the number of the newest part, which begins at that multiple of the width
	of     []int64
	full   int64 // the sum without the last
}

// take decides as counter.lua does.
func (c counter) take(s *counts, now, n, stamp int64) form.Decision {
	newest, offset := now/c.width, now%c.width
	if offset < 0 { // before 1970
		newest, offset = newest-1, offset+c.width
	}
	s.turn(newest, c.parts)
	last := c.weighed(s.of[c.parts], offset)
	used := s.full + last
	charge := stamp == form.Charge
	if charge {
		n = min(n, form.MostPermits-used)
	}
	d := form.Decision{Allowed: charge || max(n, 1) <= c.rate-used}
	switch {
	case n < 0 && stamp > 0:
		last = c.withdraw(s, -n, newest-(stamp/c.width-c.parts-1), offset)
	case n < 0 && used <= -n:
		clear(s.of)
		s.full, last = 0, 0
	case n < 0:
		if rest := s.giveBack(-n); rest > 0 {
			last -= rest
			s.of[c.parts] = int64(math.Floor(float64(last) / c.weight(offset)))
		}
	case d.Allowed:
		s.of[0] += n
		s.full += n
	default:
		d.Retry = c.retry(s, max(n, 1)) - offset
	}
	d.Remaining = c.rate - s.full - last
	for age, permits := range s.of {
		if permits > 0 {
			d.Reset = (c.parts+1-int64(age))*c.width - offset
			break
		}
	}
	return d
}

// weight returns the share of the oldest part that the interval covers. Lua has only floats, so Go
// performs the same float operations in the same order.
func (c counter) weight(offset int64) float64 { return float64(c.width-offset) / float64(c.width) }

// weighed returns how many permits of the oldest part count.
func (c counter) weighed(permits, offset int64) int64 {
	if permits == 0 {
		return 0
	}
	return int64(math.Ceil(float64(permits) * c.weight(offset)))
}

// retry returns when n permits will be there, in µs after the beginning of the newest part.
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

// until returns the first offset at which the oldest part counts for no more than room. Floats are
// exact enough that it is the computed offset or one of the next two.
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

// turn makes a part the newest. After the clock was set back, later permits count for that part.
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

// withdraw takes up to n permits out of the part of an age, and returns how many of the oldest part count.
func (c counter) withdraw(s *counts, n, age, offset int64) (last int64) {
	if age >= 0 && age <= c.parts {
		back := min(n, s.of[age])
		s.of[age] -= back
		if age < c.parts {
			s.full -= back
		}
	}
	return c.weighed(s.of[c.parts], offset)
}

// giveBack gives back permits, the newest first, but none of the oldest part. It returns how many are
// left to give back.
func (s *counts) giveBack(n int64) int64 {
	for age := range s.of[:len(s.of)-1] {
		back := min(n, s.of[age])
		s.of[age] -= back
		s.full -= back
		n -= back
	}
	return n
}

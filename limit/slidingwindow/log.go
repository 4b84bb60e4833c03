package slidingwindow

import (
	"cmp"
	"embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Log is a limit of Rate permits in any Interval.
//
// It has a record for each grant, in the order of time. A call looks at the oldest record
// and at the newest one, as each knows the sum of all before it. A refusal looks for the
// record with which enough come back, mostly one of the oldest; by halving, that takes no
// more than 20 looks.
//
// The records of a limit are at most 1,001. Up to a Rate of 1,000 that is no restriction.
// Above, grants of the same thousandth of the interval are one record, with the time of the
// latest: permits may come back up to a thousandth of the interval late, never early.
//
// Release gives back the permits that were taken last, for they are mostly the ones that
// were not used.
type Log struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped
}

// InMemory returns the limiter of this process. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods. A record takes 16 bytes.
func (l Log) InMemory(opts ...limit.Option) (limit.Releaser, error) {
	return form.InMemory(l.rule, opts)
}

// InMemoryKeyed returns a limiter with a log for each key, in this process. The log of a
// key that was idle for an interval is dropped at one of the next calls.
func (l Log) InMemoryKeyed(opts ...limit.Option) (limit.KeyedReleaser, error) {
	return form.InMemoryKeyed(l.rule, opts)
}

// OnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its key
// is {name}:slidinglog, a sorted set that Redis drops an interval after the last grant. A
// record takes some 90 bytes there. A key whose data nobody can read counts as a rate that
// was just taken. A reply that is lost is an error, and may cost permits for an interval.
func (l Log) OnRedis(rdb redis.UniversalClient, name string) (limit.Releaser, error) {
	return form.OnRedis(l.rule, rdb, name)
}

// OnRedisKeyed is OnRedis with a log for each key, under {name:key}:slidinglog.
func (l Log) OnRedisKeyed(rdb redis.UniversalClient, name string) (limit.KeyedReleaser, error) {
	return form.OnRedisKeyed(l.rule, rdb, name)
}

//go:embed log.lua counter.lua
var files embed.FS

var logScript = redisx.Load(files, "log.lua", false)

// mostRecords is how many parts of an interval have a record each, where the rate allows
// for more.
const mostRecords = 1000

func (l Log) rule() (form.Rule[records], error) {
	if err := cmp.Or(form.Permits("Rate", l.Rate), form.Span("Interval", l.Interval)); err != nil {
		return form.Rule[records]{}, err
	}
	interval := l.Interval.Truncate(time.Millisecond)
	r := log{l.Rate, interval.Microseconds(), 1}
	if l.Rate > mostRecords {
		r.slice = (r.interval + mostRecords - 1) / mostRecords
	}
	return form.Rule[records]{
		Numbers: form.Numbers{Algorithm: "slidinglog", Limit: l.Rate, Interval: interval, Rest: interval},
		Take:    r.take,
		Script:  logScript,
		Args:    []any{r.rate, r.interval, r.slice},
	}, nil
}

// A log is the rule, in µs. Grants of the same slice of time are one record.
type log struct{ rate, interval, slice int64 }

// take is log.lua.
func (l log) take(s *records, now, n int64) form.Answer {
	s.expire(now - l.interval)
	s.rewind(now)
	used := s.used()
	a := form.Answer{Allowed: n <= l.rate-used}
	switch {
	case n < 0:
		s.giveBack(min(-n, used))
	case a.Allowed:
		s.add(now, n, l.slice)
	default:
		a.Retry = s.record(s.reach(used+n-l.rate)).at + l.interval - now
	}
	if s.count > 0 {
		a.Reset = s.record(s.count-1).at + l.interval - now
	}
	a.Remaining = l.rate - s.used()
	return a
}

// records are a ring, from the oldest to the newest. Sums may overflow: they are only
// subtracted from one another.
type records struct {
	ring         []record // as long as a power of two, or empty
	first, count int
	gone         int64 // the sum of the records that are gone
}

// A record is a grant, or several that are as good as one.
type record struct {
	at  int64 // µs
	sum int64 // of its permits and those of all records before it
}

// record returns that of a rank; 0 is the oldest.
func (s *records) record(rank int) *record { return &s.ring[(s.first+rank)&(len(s.ring)-1)] }

// sum returns the permits of all records that were ever there.
func (s *records) sum() int64 {
	if s.count == 0 {
		return s.gone
	}
	return s.record(s.count - 1).sum
}

// used returns the permits that are out.
func (s *records) used() int64 { return s.sum() - s.gone }

// expire drops the records up to a time.
func (s *records) expire(end int64) {
	for s.count > 0 && s.record(0).at <= end {
		s.gone = s.record(0).sum
		s.first++
		s.count--
	}
}

// rewind makes one record of those that are later than now. The clock was set back then;
// else they would be there for longer than an interval.
func (s *records) rewind(now int64) {
	if s.count == 0 || s.record(s.count-1).at <= now {
		return
	}
	sum := s.sum()
	for s.count > 0 && s.record(s.count-1).at >= now {
		s.count--
	}
	s.push(record{now, sum})
}

// add notes a grant.
func (s *records) add(now, n, slice int64) {
	if s.count > 0 {
		if last := s.record(s.count - 1); last.at/slice == now/slice {
			*last = record{now, last.sum + n}
			return
		}
	}
	s.push(record{now, s.sum() + n})
}

// push adds the newest record.
func (s *records) push(r record) {
	if s.count == len(s.ring) {
		ring := make([]record, max(4, 2*len(s.ring)))
		for rank := range s.count {
			ring[rank] = *s.record(rank)
		}
		s.ring, s.first = ring, 0
	}
	s.count++
	*s.record(s.count - 1) = r
}

// giveBack gives back permits that are out, the newest first.
func (s *records) giveBack(n int64) {
	rest := s.used() - n
	if rest == 0 {
		*s = records{ring: s.ring}
		return
	}
	s.count = s.reach(rest) + 1
	s.record(s.count - 1).sum = s.gone + rest
}

// reach returns the rank of the first record that has n permits with those before it. That
// is mostly one of the oldest, so it looks there first.
func (s *records) reach(n int64) int {
	low, high := 0, s.count-1
	for stride := 1; low < high; stride *= 2 {
		if middle := min((low+high)/2, low+stride-1); s.record(middle).sum-s.gone >= n {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

package slidingwindow

import (
	"embed"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Log is a limit of Rate permits in any Interval.
//
// It has a record for each grant, in order of time. A call reads only the oldest and the newest record,
// because each has the sum of all before it. A refusal searches for the record with which enough
// permits come back, mostly one of the oldest: a binary search of at most 20 steps.
//
// A limit has at most 1,001 records. Up to a Rate of 1,000 that is no restriction. Above it, grants in
// the same thousandth of the interval share a record, with the time of the latest: permits may come
// back up to a thousandth of the interval late, never early.
//
// Release gives back the newest permits, which are the ones most likely unused.
type Log struct {
	Rate     int64         // 1 to 2^40
	Interval time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped
}

// InMemory returns a limiter in this process, with 16 bytes for a record. When a key has not been used for
// an interval, one of the next calls drops its log. The error is a limit.ErrInvalidArgument if a field is
// out of its bounds.
func (l Log) InMemory(opts ...limit.Option) (limit.Ledger, error) {
	return form.Ledger(form.InMemory(l.rule, opts))
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:slidinglog, or {name:key}:slidinglog for a key of For, a sorted set with some 90 bytes for a record,
// which Redis drops an interval after the last grant. Unreadable data under the key counts as if the whole
// rate had just been taken. A lost reply is an error, and may cost permits for an interval. The error is that
// of InMemory, also for a nil rdb or an unusable name.
func (l Log) OnRedis(rdb redis.UniversalClient, name string) (limit.Ledger, error) {
	return form.Ledger(form.OnRedis(l.rule, rdb, name))
}

//go:embed log.lua counter.lua
var files embed.FS

var logScript = redisx.Load(files, "log.lua", false)

// mostRecords is the number of slices of an interval with a record each, if the rate is higher.
const mostRecords = 1000

func (l Log) rule() (form.Rule[records], error) {
	numbers, err := form.Counted("slidinglog", "Rate", l.Rate, "Interval", l.Interval)
	r := log{l.Rate, numbers.Interval.Microseconds(), 1}
	if l.Rate > mostRecords {
		r.slice = (r.interval + mostRecords - 1) / mostRecords
	}
	return form.Rule[records]{
		Numbers: numbers, Take: r.take, Script: logScript, Args: []any{r.rate, r.interval, r.slice},
	}, err
}

// A log is the rule of a Log, in µs. Grants in the same slice of time are one record.
type log struct{ rate, interval, slice int64 }

// take decides as log.lua does.
func (l log) take(s *records, now, n, stamp int64) form.Decision {
	s.expire(now - l.interval)
	s.rewind(now)
	used := s.used()
	charge := stamp == form.Charge
	if charge {
		n = min(n, form.MostPermits-used)
	}
	d := form.Decision{Allowed: charge || max(n, 1) <= l.rate-used}
	switch {
	case n < 0 && stamp > 0:
		s.withdraw(stamp-l.interval, -n, l.slice)
	case n < 0:
		s.giveBack(min(-n, used))
	case n == 0 && d.Allowed: // charged in vain, or a look
	case d.Allowed:
		s.add(now, n, l.slice)
	default:
		d.Retry = s.record(s.reach(used+max(n, 1)-l.rate)).at + l.interval - now
	}
	if s.count > 0 {
		d.Reset = s.record(s.count-1).at + l.interval - now
	}
	d.Remaining = l.rate - s.used()
	return d
}

// records are a ring, from the oldest to the newest. Sums may overflow, as only their differences count.
type records struct {
	ring         []record // as long as a power of two, or empty
	first, count int
	gone         int64 // the sum of the dropped records
}

// A record is a grant, or several of one slice.
type record struct {
	at  int64 // µs
	sum int64 // permits of this record and all before it
}

// record returns the record of a rank, of which 0 is the oldest.
func (s *records) record(rank int) *record { return &s.ring[(s.first+rank)&(len(s.ring)-1)] }

// sum returns the permits of all records that ever were.
func (s *records) sum() int64 {
	if s.count == 0 {
		return s.gone
	}
	return s.record(s.count - 1).sum
}

// used returns the permits that are out.
func (s *records) used() int64 { return s.sum() - s.gone }

// expire drops the records up to end.
func (s *records) expire(end int64) {
	for s.count > 0 && s.record(0).at <= end {
		s.gone = s.record(0).sum
		s.first++
		s.count--
	}
}

// rewind joins the records later than now after the clock was set back. Otherwise they would stay
// longer than an interval.
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

// add records a grant.
func (s *records) add(now, n, slice int64) {
	if s.count > 0 {
		if last := s.record(s.count - 1); last.at/slice == now/slice {
			*last = record{now, last.sum + n}
			return
		}
	}
	s.push(record{now, s.sum() + n})
}

// push appends a record.
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

// withdraw takes up to n permits out of the record of a grant at that time, if it is there.
func (s *records) withdraw(at, n, slice int64) {
	rank := sort.Search(s.count, func(rank int) bool { return s.record(rank).at >= at })
	if rank == s.count || s.record(rank).at/slice != at/slice {
		return
	}
	n = min(n, s.record(rank).sum-s.before(rank))
	for ; rank < s.count; rank++ {
		s.record(rank).sum -= n
	}
	for s.count > 0 && s.sum() == s.before(s.count-1) { // the last record has no permits
		s.count--
	}
}

// before returns the sum before the record of a rank.
func (s *records) before(rank int) int64 {
	if rank == 0 {
		return s.gone
	}
	return s.record(rank - 1).sum
}

// reach returns the rank of the first record that has n permits together with those before it. It
// starts with the oldest records, because it is mostly one of them.
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

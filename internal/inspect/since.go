package inspect

import (
	"math"
	"slices"
	"time"
)

// A Change is what happened to a pair between two looks at it.
type Change struct {
	ByGo     int64 `json:"by_go"`     // permits granted by Go
	ByOthers int64 `json:"by_others"` // permits granted by Java, or whoever else wrote the records
	Released int64 `json:"released"`  // permits taken out of records that were there before

	// AtLeast says that there were more new records than were read.
	AtLeast bool `json:"at_least"`

	// Seen is how much of the time before the later look the permits are of: all since the earlier one, or
	// less if that is longer ago than the interval, or if records were not read.
	Seen time.Duration `json:"seen_ns"`

	// Refused is an estimate of the requests of Go that were refused. A refusal writes
	// nothing, so it is taken from the numbers of the sessions: requests that left no record.
	// A Client counts over all its limiters, so it is too high for one that uses several; a
	// Client is seen again only at its next grant. What Java was refused is not known. It is
	// Unknown where one record is of several grants (WithResolution).
	Refused int64 `json:"refused_estimate"`
}

// Since compares a pair with the same pair at an earlier look.
func (l *Limiter) Since(before *Limiter, id string) Change {
	var c Change
	now, then := l.PairOf(id), before.PairOf(id)
	if now == nil || then == nil {
		return c
	}
	// A record that was in the unread part of one look says nothing: compare from the first record
	// behind that part on, and what neither look has lost to time.
	from := math.Max(now.readFrom(), then.readFrom())
	ended := float64(l.At.UnixMilli() - l.Config.Interval)
	// Of the records of one ms the sum tells: a repair writes those of others anew.
	type sum struct{ byGo, byOthers, records int64 }
	sums := map[float64]sum{}
	count := func(records []Record, sign int64) {
		for _, r := range records {
			s := sums[r.score]
			if s.records += sign; r.ByGo {
				s.byGo += sign * r.Permits
			} else {
				s.byOthers += sign * r.Permits
			}
			sums[r.score] = s
		}
	}
	count(then.Records, -1)
	count(now.Records, 1)
	known := int64(0) // requests that have left a trace
	for score, more := range sums {
		all := more.byGo + more.byOthers
		switch {
		case score < from || score <= ended || all == 0:
		case all < 0:
			c.Released -= all
			known++
		default:
			byGo := min(max(more.byGo, 0), all)
			c.ByGo += byGo
			c.ByOthers += all - byGo
			if byGo > 0 {
				known += max(1, more.records)
			}
		}
	}
	c.AtLeast = now.readFrom() > then.latest()
	passed := l.At.Sub(before.At)
	seen := min(float64(l.At.UnixMilli())-math.Max(from, ended), float64(passed.Milliseconds()))
	c.Seen = time.Duration(max(0, seen)) * time.Millisecond
	if c.Seen > 0 {
		known = int64(float64(known) * float64(passed) / float64(c.Seen))
	}
	c.Refused = max(0, l.requests(before)-known)
	if slices.ContainsFunc(now.Records, func(r Record) bool { return r.Merged }) {
		c.Refused = Unknown
	}
	return c
}

// readFrom returns the time from which on all records were read.
func (p *Pair) readFrom() float64 {
	if p.Unread == 0 || p.Gap >= len(p.Records) {
		return math.Inf(-1)
	}
	return p.Records[p.Gap].score
}

// latest returns the time of the newest record.
func (p *Pair) latest() float64 {
	if len(p.Records) == 0 {
		return math.Inf(-1)
	}
	return p.Records[len(p.Records)-1].score
}

// requests returns how many requests of Go there were since an earlier look, by the sessions that are in
// both.
func (l *Limiter) requests(before *Limiter) (n int64) {
	numbers := make(map[string]int64, len(before.Sessions))
	for _, s := range before.Sessions {
		numbers[s.Field] = s.Number
	}
	for _, s := range l.Sessions {
		if earlier, ok := numbers[s.Field]; ok {
			n += max(0, s.Number-earlier)
		}
	}
	return n
}

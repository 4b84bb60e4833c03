package inspect

import (
	"math"
	"slices"
	"time"
)

// A Change is the difference of a pair between two looks.
type Change struct {
	ByGo     int64 `json:"by_go"`     // permits granted by Go
	ByOthers int64 `json:"by_others"` // permits granted by Java, or any other author of records
	Released int64 `json:"released"`  // permits removed from earlier records

	// AtLeast says that not all new records were read.
	AtLeast bool `json:"at_least"`

	// Seen is the time before the later look that the permits cover: all since the earlier look, or less if
	// that is longer ago than the interval, or if records were not read.
	Seen time.Duration `json:"seen_ns"`

	// Refused is an estimate of the refused requests of Go. A refusal writes nothing, so the estimate counts
	// the request numbers of the sessions that left no record. It is too high for a Client of several
	// limiters, which numbers its requests over all of them, and includes a Client only after its next grant.
	// Refusals of Java are unknown. Refused is Unknown if one record stands for several grants
	// (WithResolution).
	Refused int64 `json:"refused_estimate"`
}

// Since compares a pair with the same pair at an earlier look.
func (l *Limiter) Since(before *Limiter, id string) Change {
	var c Change
	now, then := l.PairOf(id), before.PairOf(id)
	if now == nil || then == nil {
		return c
	}
	// A record in the unread part of one look says nothing: compare the records after that part, and only
	// those that have expired in neither look.
	from := math.Max(now.readFrom(), then.readFrom())
	ended := float64(l.At.UnixMilli() - l.Config.Interval)
	// Records of the same ms are summed, because a repair rewrites records of other authors.
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
	granted := int64(0) // requests that left a record
	for score, more := range sums {
		all := more.byGo + more.byOthers
		switch {
		case score < from || score <= ended || all == 0:
		case all < 0:
			c.Released -= all
			granted++
		default:
			byGo := min(max(more.byGo, 0), all)
			c.ByGo += byGo
			c.ByOthers += all - byGo
			if byGo > 0 {
				granted += max(1, more.records)
			}
		}
	}
	c.AtLeast = now.readFrom() > then.latest()
	passed := l.At.Sub(before.At)
	seen := min(float64(l.At.UnixMilli())-math.Max(from, ended), float64(passed.Milliseconds()))
	c.Seen = time.Duration(max(0, seen)) * time.Millisecond
	if c.Seen > 0 {
		granted = int64(float64(granted) * float64(passed) / float64(c.Seen))
	}
	c.Refused = max(0, l.requests(before)-granted)
	if slices.ContainsFunc(now.Records, func(r Record) bool { return r.Merged }) {
		c.Refused = Unknown
	}
	return c
}

// readFrom returns the time after which all records were read.
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

// requests returns the number of requests of Go since an earlier look, according to the sessions in both.
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

// Grants are the permits taken in some time, by the author of the records.
type Grants struct{ ByGo, ByOthers int64 }

// Window cuts a span of time in ms that ends now into parts and returns the permits taken in each, the oldest
// first; nil if there is no span. Records dated ahead are in the last part.
func (l *Limiter) Window(p *Pair, span int64, parts int) []Grants {
	if span < 1 || parts < 1 {
		return nil
	}
	window := make([]Grants, parts)
	from := float64(l.At.UnixMilli() - span)
	for _, r := range p.Records {
		if r.Over || r.score < from {
			continue
		}
		at := (r.score - from) / float64(span) * float64(parts)
		part := &window[int(max(0, min(at, float64(parts-1))))]
		if r.ByGo {
			part.ByGo += r.Permits
		} else {
			part.ByOthers += r.Permits
		}
	}
	return window
}

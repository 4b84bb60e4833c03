package inspect

import (
	"fmt"
	"slices"
	"time"
)

const (
	// skew is how far ahead a record may be dated by a clock that is well.
	skew = time.Second
	// manyOver is how many records one call removes.
	manyOver = 1000
)

// remarks says what is odd about the records.
func (p *Pair) remarks(l *Limiter) []Finding {
	count := func(is func(r *Record) bool) (n int) {
		for i := range p.Records {
			if is(&p.Records[i]) {
				n++
			}
		}
		return n
	}
	var found []Finding
	for _, odd := range []struct {
		n                 int
		fault, mend, what string
	}{
		{count(func(r *Record) bool { return r.Format == "" }), "", "rrl repair drops them.",
			"Records of a form that no version of Redisson writes: %d."},
		{count(func(r *Record) bool { return r.Over }) / manyOver * manyOver, "B16",
			"Acquires of Go remove 1,000 each.",
			"Records that are over and wait for a call that removes them: %d or more."},
		{count(func(r *Record) bool { return r.Permits == 0 && !r.Over }), "B12", "rrl repair drops them.",
			"Records of no permits, which keep waiters of Java busy: %d."},
		{count(func(r *Record) bool { return r.Ahead && !r.ByGo && r.At.Sub(l.At) > skew }), "B5",
			"Set the clock of that service right.",
			"Records dated ahead of the clock of Redis, so the clock of a Java service is fast: %d."},
	} {
		if odd.n > 0 {
			found = append(found, remark(odd.fault, odd.mend, odd.what, odd.n)...)
		}
	}
	return slices.Concat(found, p.mixed(), p.partly())
}

// mixed says that there are records of more than one format.
func (p *Pair) mixed() []Finding {
	formats := map[string]bool{}
	for _, r := range p.Records {
		if r.Format != "" {
			formats[r.Format] = true
		}
	}
	if len(formats) < 2 {
		return nil
	}
	return remark("", "When the older clients have stopped: rrl repair.",
		"The records are of %d formats: one version of Redisson may not read those of another.", len(formats))
}

// partly says that not all records were read.
func (p *Pair) partly() []Finding {
	if p.Unread == 0 {
		return nil
	}
	return remark("", fmt.Sprintf("rrl inspect --records reads up to %d.", Most),
		"Value and records were not compared: %d of %d records were not read.", p.Unread, p.Total)
}

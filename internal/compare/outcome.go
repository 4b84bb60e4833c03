package compare

import (
	"maps"
	"slices"
	"strings"
)

// parts are those of an outcome in which two may differ.
type parts uint

const (
	inAnswer parts = 1 << iota
	inFields
	inEnds // of the hash and of the pair in force
	inValue
	inRecords
	inOther // all of the pair that is not in force
)

var partNames = []string{"answer", "fields", "time to live", "value", "records", "the other type's pair"}

// String names the parts.
func (p parts) String() string {
	var names []string
	for i, name := range partNames {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// An outcome is the answer to a step and the state after it.
type outcome struct {
	answer
	state
}

// differ returns the parts in which two outcomes differ. Which pair is in force
// is taken from the second.
func differ(a, b outcome) (d parts) {
	mark := func(differs bool, in parts) {
		if differs {
			d |= in
		}
	}
	mark(a.answer != b.answer, inAnswer)
	mark((a.hash == nil) != (b.hash == nil) || !maps.Equal(a.hash, b.hash), inFields)
	mark(!near(a.ends, b.ends), inEnds)
	typ := b.settings().typ
	for i := range a.pairs {
		p, q := a.pairs[i], b.pairs[i]
		value, records, ends := inValue, inRecords, inEnds
		if i != typ {
			value, records, ends = inOther, inOther, inOther
		}
		mark(p.value != q.value, value)
		mark(!slices.EqualFunc(sorted(p.records), sorted(q.records), record.same), records)
		mark(!near(p.valueEnds, q.valueEnds) || !near(p.recordsEnds, q.recordsEnds), ends)
	}
	return d
}

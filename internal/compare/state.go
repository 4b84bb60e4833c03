package compare

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
)

// A state is what Redis holds of one limiter as one client sees it, decoded.
// Times are Unix ms; 0 is never.
type state struct {
	hash  map[string]string // nil if there is none; without the session fields of Go
	ends  int64
	pairs [2]pair // by type: the pair that all clients share, and the client's own
}

// A pair is a value string and the records beside it.
type pair struct {
	value       string // "" if there is none
	valueEnds   int64
	records     grants.Grants // in the order of Redis; each is of byGo or byJava
	recordsEnds int64
}

func (st state) clone() state {
	st.hash = maps.Clone(st.hash)
	for i := range st.pairs {
		st.pairs[i].records = slices.Clone(st.pairs[i].records)
	}
	return st
}

// tidy returns the state without a time to live on keys that do not exist.
func (st state) tidy() state {
	if st.hash == nil {
		st.ends = 0
	}
	for i := range st.pairs {
		p := &st.pairs[i]
		if p.value == "" {
			p.valueEnds = 0
		}
		if len(p.records) == 0 {
			p.records, p.recordsEnds = nil, 0
		}
	}
	return st
}

// inForce returns the pair of the limiter's type.
func (st *state) inForce() *pair { return &st.pairs[st.settings().typ] }

func (p pair) empty() bool { return p.value == "" && len(p.records) == 0 }

// number returns the value string as a number; ok reports whether it is one.
func (p pair) number() (n int64, ok bool) {
	n, err := strconv.ParseInt(p.value, 10, 64)
	return n, err == nil
}

// like reports whether two states are the same to Java.
func (st state) like(other state) bool {
	alike := (st.hash == nil) == (other.hash == nil) && maps.Equal(st.hash, other.hash) &&
		near(st.ends, other.ends)
	for i, p := range st.pairs {
		q := other.pairs[i]
		alike = alike && p.value == q.value &&
			slices.EqualFunc(sorted(p.records), sorted(q.records), same) &&
			near(p.valueEnds, q.valueEnds) && near(p.recordsEnds, q.recordsEnds)
	}
	return alike
}

// sorted returns the records in one order: Redis sorts those of the same ms by their random bytes.
func sorted(records grants.Grants) grants.Grants {
	return slices.SortedFunc(slices.Values(records), func(a, b grants.Grant) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Permits, b.Permits))
	})
}

// same reports whether two records are the same to Java.
func same(a, b grants.Grant) bool { return a.At == b.At && a.Permits == b.Permits }

// settings are the fields of the hash as numbers.
type settings struct {
	typ                  int // of the pair in force
	rate, interval, keep int64
	whole                bool // rate, interval and type exist
}

func (st state) settings() (c settings) {
	number := func(name string) (n int64, found bool) {
		text, found := st.hash[name]
		n, _ = strconv.ParseInt(text, 10, 64)
		return n, found
	}
	var rated, timed, typed bool
	c.rate, rated = number("rate")
	c.interval, timed = number("interval")
	_, typed = number("type")
	c.keep, _ = number("keepAliveTime")
	c.whole = rated && timed && typed
	if st.hash["type"] == "1" {
		c.typ = 1
	}
	return c
}

// near reports whether two expiries are equal within a minute. The clock of the
// server sets them while the test runs; those that the generator sets are further
// apart.
func near(a, b int64) bool { return (a == 0) == (b == 0) && max(a-b, b-a) < time.Minute.Milliseconds() }

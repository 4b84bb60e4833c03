package compat_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A world is what Redis holds of one limiter as one client sees it, decoded.
// Points in time are Unix ms; 0 is never.
type world struct {
	hash  map[string]string // nil if there is none; without Go's sessions
	ends  int64
	pairs [2]holding // by type: those all share, those of the client's own
}

// A holding is a value string and the records of one pair of keys.
type holding struct {
	value       string // "" if there is none
	valueEnds   int64
	records     []grant // in the order of Redis
	recordsEnds int64
}

// A grant is one record.
type grant struct{ at, permits int64 }

func (w world) clone() world {
	w.hash = maps.Clone(w.hash)
	for i := range w.pairs {
		w.pairs[i].records = slices.Clone(w.pairs[i].records)
	}
	return w
}

// tidy drops the ends of what is not there.
func (w world) tidy() world {
	if w.hash == nil {
		w.ends = 0
	}
	for i := range w.pairs {
		h := &w.pairs[i]
		if h.value == "" {
			h.valueEnds = 0
		}
		if len(h.records) == 0 {
			h.records, h.recordsEnds = nil, 0
		}
	}
	return w
}

func (h holding) empty() bool { return h.value == "" && len(h.records) == 0 }

// number is the value string as a number, and whether it is one.
func (h holding) number() (int64, bool) {
	n, err := strconv.ParseInt(h.value, 10, 64)
	return n, err == nil
}

// sum is the permits of records.
func sum(records []grant) (n int64) {
	for _, g := range records {
		n += g.permits
	}
	return n
}

// live are the records that count at a time, or with old those that do not.
func (h holding) live(now, interval int64) (live, old []grant) {
	for _, g := range h.records {
		if g.at > now-interval {
			live = append(live, g)
		} else {
			old = append(old, g)
		}
	}
	return live, old
}

// settings are the fields of a hash as numbers.
type settings struct {
	typ                  int // of the pair in force
	rate, interval, keep int64
	whole                bool // rate, interval and type are there
}

func (w world) settings() (s settings) {
	number := func(name string) (n int64, found bool) {
		text, found := w.hash[name]
		n, _ = strconv.ParseInt(text, 10, 64)
		return n, found
	}
	var rated, timed, typed bool
	s.rate, rated = number("rate")
	s.interval, timed = number("interval")
	_, typed = number("type")
	s.keep, _ = number("keepAliveTime")
	s.whole = rated && timed && typed
	if w.hash["type"] == "1" {
		s.typ = 1
	}
	return s
}

// force is the pair in force.
func (w *world) force() *holding { return &w.pairs[w.settings().typ] }

// nothing reports whether none of the five keys is there.
func (w world) nothing() bool {
	return w.hash == nil && w.pairs[0].empty() && w.pairs[1].empty()
}

// An aspect is a part of an outcome in which two may differ.
type aspect uint

const (
	inAnswer aspect = 1 << iota
	inFields
	inEnds // of the hash and of the pair in force
	inValue
	inRecords
	inOther // all of the pair that is not in force
)

func (a aspect) String() string {
	var names []string
	for i, name := range []string{"answer", "fields", "time to live", "value", "records", "the other type's pair"} {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// An outcome is what comes of a step.
type outcome struct {
	answer
	world
}

// differ says in what two outcomes differ. Times to live are equal within a
// minute, as they are set by the clock of the server while a test goes on; all
// that the generator sets are further apart.
func differ(a, b outcome) (d aspect) {
	mark := func(differs bool, in aspect) {
		if differs {
			d |= in
		}
	}
	mark(a.answer != b.answer, inAnswer)
	mark((a.hash == nil) != (b.hash == nil) || !maps.Equal(a.hash, b.hash), inFields)
	mark(!near(a.ends, b.ends), inEnds)
	typ := b.settings().typ
	for i := range a.pairs {
		g, h := a.pairs[i], b.pairs[i]
		value, records := inValue, inRecords
		ends := inEnds
		if i != typ {
			value, records, ends = inOther, inOther, inOther
		}
		mark(g.value != h.value, value)
		mark(!slices.Equal(sorted(g.records), sorted(h.records)), records)
		mark(!near(g.valueEnds, h.valueEnds) || !near(g.recordsEnds, h.recordsEnds), ends)
	}
	return d
}

func near(a, b int64) bool { return (a == 0) == (b == 0) && max(a-b, b-a) < time.Minute.Milliseconds() }

// sorted brings records of the same ms, which have no order, into one.
func sorted(records []grant) []grant {
	return slices.SortedFunc(slices.Values(records), func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.permits, b.permits))
	})
}

// withoutOwnLife is a world without the time to live that Go gives a pair of
// its own in a limiter that lives for ever: Java neither has it nor minds it (B8).
func (w world) withoutOwnLife() world {
	if w.ends == 0 {
		w.pairs[1].valueEnds, w.pairs[1].recordsEnds = 0, 0
	}
	return w
}

func (w world) String() string {
	ends := func(t int64) string {
		if t == 0 {
			return ""
		}
		return " (ends)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v%s", w.hash, ends(w.ends))
	for i, h := range w.pairs {
		if !h.empty() {
			fmt.Fprintf(&b, "; %s value %q%s, records %v%s", rratelimiter.RateType(i), h.value, ends(h.valueEnds), h.records, ends(h.recordsEnds))
		}
	}
	return b.String()
}

// five are the keys of a limiter as the client with this id sees it.
func five(name, id string) []string {
	k := keysOf(name)
	own := k.of(id)
	return []string{k.hash, k.value, k.permits, own.value, own.permits}
}

// photo takes pictures of limiters, of five keys each, all at once.
var photo = redis.NewScript(`
local all = {}
for i = 1, #KEYS, 5 do
  local one = { redis.call('HGETALL', KEYS[i]), redis.call('PTTL', KEYS[i]) }
  for j = i + 1, i + 3, 2 do
    one[#one + 1] = redis.call('GET', KEYS[j])
    one[#one + 1] = redis.call('PTTL', KEYS[j])
    one[#one + 1] = redis.call('ZRANGE', KEYS[j + 1], 0, -1, 'WITHSCORES')
    one[#one + 1] = redis.call('PTTL', KEYS[j + 1])
  end
  all[#all + 1] = one
end
return all`)

// worlds reads what Redis holds under the keys that five has named.
func worlds(ctx context.Context, rdb redis.UniversalClient, keys []string) ([]world, error) {
	reply, err := photo.Run(ctx, rdb, keys).Slice()
	if err != nil {
		return nil, err
	}
	var all []world
	for _, one := range reply {
		w, err := decodeWorld(one.([]any))
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func decodeWorld(one []any) (w world, err error) {
	fields := one[0].([]any)
	for i := 0; i < len(fields); i += 2 {
		if w.hash == nil {
			w.hash = map[string]string{}
		}
		name := fields[i].(string)
		if !strings.HasPrefix(name, "session:") {
			w.hash[name] = fields[i+1].(string)
		}
	}
	ends := func(pttl any) int64 {
		if ms := pttl.(int64); ms >= 0 {
			return time.Now().UnixMilli() + ms
		}
		return 0
	}
	w.ends = ends(one[1])
	for i := range w.pairs {
		h, got := &w.pairs[i], one[2+4*i:]
		h.value, _ = got[0].(string)
		h.valueEnds, h.recordsEnds = ends(got[1]), ends(got[3])
		if h.records, err = decodeRecords(got[2].([]any)); err != nil {
			return w, err
		}
	}
	return w, nil
}

func decodeRecords(flat []any) (records []grant, err error) {
	for i := 0; i < len(flat); i += 2 {
		member := flat[i].(string)
		if len(member) != 21 || member[0] != 16 {
			return nil, fmt.Errorf("%q is no record of Redisson 3.21 and later", member)
		}
		permits, err := rratelimiter.RecordPermits(member)
		if err != nil {
			return nil, err
		}
		at, err := strconv.ParseInt(flat[i+1].(string), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the time of a record is no integer: %w", err)
		}
		records = append(records, grant{at, permits})
	}
	return records, nil
}

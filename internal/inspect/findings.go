package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// A Finding is something that is not as it should be.
type Finding struct {
	// Fault is the number in docs/faults.md of the fault of Redisson that leaves such keys behind: B1 to B24.
	// Two, as in "B1 or B19", leave the same keys. It is empty if no fault of Redisson does.
	Fault string `json:"fault"`

	Label string `json:"label"`        // the same in two or three words
	ID    string `json:"id,omitempty"` // of the client whose pair it is; empty for the shared one
	What  string `json:"what"`         // what was found, a sentence; names in it are quoted
	Mend  string `json:"mend"`         // what mends it, a sentence or a command

	// Remark reports whether the permits are right nevertheless: value + permits of all records = rate, as
	// far as that could be checked.
	Remark bool `json:"remark"`
}

// wrong returns a single finding. Its What is a format for args.
func wrong(fault, label, mend, what string, args ...any) []Finding {
	return []Finding{{Fault: fault, Label: label, Mend: mend, What: fmt.Sprintf(what, args...)}}
}

// remark returns a single finding that leaves the permits right.
func remark(fault, label, mend, what string, args ...any) []Finding {
	found := wrong(fault, label, mend, what, args...)
	found[0].Remark = true
	return found
}

// unreadable returns the finding for a key that was not read because of an error.
func unreadable(err error) []Finding {
	return wrong("", "unreadable", "", "It could not be read: %v", err)
}

// allRemarks reports whether the permits are right despite all findings.
func allRemarks(found []Finding) bool {
	return !slices.ContainsFunc(found, func(f Finding) bool { return !f.Remark })
}

const (
	sets       = "rrl set, or SetRate, writes all fields."
	otherSlots = "The braces in the name put its keys into different slots"
)

// find returns the findings about a limiter.
func (l *Limiter) find() []Finding {
	found := []Finding{}
	if hash := &l.Keys[0]; hash.There() && hash.Kind != "hash" {
		return wrong("", "another program", "Another program uses the name. Give the limiter another one.",
			"%q is a %s, must be a hash.", hash.Name, hash.Kind)
	}
	if !l.Set {
		return append(found, l.unset()...)
	}
	found = append(found, l.Config.find()...)
	if len(l.Config.bad) > 0 {
		return found
	}
	if l.apart {
		return append(found, wrong("B23", "braces", "Give the limiter another name.",
			otherSlots+": on this cluster every call fails.")...)
	}
	for i := range l.Pairs {
		found = append(found, l.Pairs[i].find(l)...)
	}
	if l.split {
		found = append(found, braces("B23")...)
	}
	return found
}

// braces returns the remark on a name whose keys only a cluster keeps apart.
func braces(fault string) []Finding {
	return remark(fault, "braces", "On a cluster, choose another name. Elsewhere nothing is wrong.",
		otherSlots+" of a cluster.")
}

// unset describes the remains of a limiter without a rate.
func (l *Limiter) unset() []Finding {
	c := &l.Config
	if c.Type != "" || c.Rate != 0 || c.Interval != 0 || len(c.bad) > 0 {
		return wrong("B15", "half of a rate", sets,
			"Half of a rate is set: rate, interval or type is missing.")
	}
	if i := slices.IndexFunc(l.Keys[1:], func(k Key) bool { return k.There() }); i >= 0 {
		mend := "rrl set, TrySetRate and SetRate of Go remove it, and so does rrl delete."
		if id := l.Pairs[i/2].ID; id != "" {
			mend = "rrl delete --id " + words.Name(id) + " removes it."
		}
		return wrong("B6 or B8", "leftovers", mend,
			"No rate is set, but %q exists and would limit a rate that Java sets.", l.Keys[i+1].Name)
	}
	return nil
}

// find describes fields that no limiter can have.
func (c *Config) find() []Finding {
	switch {
	case len(c.bad) > 0:
		return wrong("B14 or B15", "no integer", sets, "Not an integer up to 2^53: %s.", c.Unreadable())
	case c.Rate < 1:
		return wrong("B22", "rate below 1", sets, "The rate is %d: every request exceeds it.", c.Rate)
	case c.Interval < 1:
		return wrong("B22", "no interval", sets,
			"The interval is %d ms: permits are back at once, so nothing is limited.", c.Interval)
	}
	return nil
}

// find describes what is wrong with a pair.
func (p *Pair) find(l *Limiter) []Finding {
	value, permits := l.keysOf(p)
	found := p.misused(value, permits)
	switch {
	case (p.ID != "") != l.Config.PerClient():
		found = p.unused(value, permits, l)
	case found == nil:
		found = slices.Concat(p.drift(l), p.lives(value, permits, l), p.remarks(l))
	}
	for i := range found {
		found[i].ID = p.ID
	}
	return found
}

// misused names a key of another kind.
func (p *Pair) misused(value, permits *Key) []Finding {
	kind := "string"
	for _, key := range []*Key{value, permits} {
		if key.There() && key.Kind != kind {
			return wrong("", "another program", "Another program has written it. rrl delete, then rrl set.",
				"%q is a %s, must be a %s: every call fails.", key.Name, key.Kind, kind)
		}
		kind = "zset"
	}
	return nil
}

// unused names a key of a pair that the type of the limiter does not use.
func (p *Pair) unused(value, permits *Key, l *Limiter) []Finding {
	for _, key := range []*Key{value, permits} {
		if key.There() {
			return remark("B8", "another type", "rrl set, or SetRate, removes it.",
				"%q is left from another type; %s does not use it.", key.Name, l.Config.Type)
		}
	}
	return nil
}

// lives names keys that do not expire together. While versions of this library and of Redisson share a
// limiter, their times to live may differ a little.
func (p *Pair) lives(value, permits *Key, l *Limiter) []Finding {
	const mend = "The next acquire of a Go Client gives all keys the same time to live."
	hash, little := l.Keys[0].life(), time.Second
	// A client's own pair expires when the client has not called for long.
	ownEnds := p.ID != "" && l.Keys[0].TTL == -1
	for _, key := range []*Key{value, permits} {
		if ownEnds || !key.There() {
			continue
		}
		switch life := key.life(); {
		case life < hash-little && p.Outstanding > 0:
			return wrong("", "expires early", mend,
				"%q expires in %s, before the hash: permits that are taken would be granted again.",
				key.Name, words.Span(key.TTL))
		case life > hash+little && p.ID == "":
			return remark("B6", "outlives the hash", mend,
				"The hash expires in %s, %q later or never: it would limit the next rate.",
				words.Span(l.Keys[0].TTL), key.Name)
		}
	}
	return nil
}

// life returns how long the key lives, at most a century.
func (k *Key) life() time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	if k.TTL < 0 {
		return century
	}
	return min(century, wire.Milliseconds(k.TTL))
}

const (
	// skew is how far ahead a correct clock may date a record.
	skew = time.Second
	// manyOver is how many expired records one call removes.
	manyOver = 1000
)

// remarks describes records that are odd, and what was not read.
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
		n                        int
		fault, label, mend, what string
	}{
		{count(func(r *Record) bool { return r.Format == "" }), "", "unknown records",
			"rrl repair drops them.", "Records of a form that no version of Redisson writes: %d."},
		{count(func(r *Record) bool { return r.Over }) / manyOver * manyOver, "B16", "many expired",
			"Acquires of Go remove 1,000 each.",
			"Expired records that wait for a call that removes them: %d or more."},
		{count(func(r *Record) bool { return r.Permits == 0 && !r.Over }), "B12", "empty records",
			"rrl repair drops them.", "Records of no permits, which keep waiters of Java busy: %d."},
		{count(func(r *Record) bool { return r.Ahead && !r.ByGo && r.At.Sub(l.At) > skew }), "B5",
			"fast clock", "Set the clock of that service right.",
			"Records dated ahead of the clock of Redis, so the clock of a Java service is fast: %d."},
	} {
		if odd.n > 0 {
			found = append(found, remark(odd.fault, odd.label, odd.mend, odd.what, odd.n)...)
		}
	}
	formats := map[string]bool{}
	for _, r := range p.Records {
		formats[cmp.Or(r.Format, p.Records[0].Format)] = true
	}
	if delete(formats, ""); len(formats) > 1 {
		found = append(found, remark("", "mixed formats", "When the older clients have stopped: rrl repair.",
			"The records have %d formats: one version of Redisson may not read those of another.",
			len(formats))...)
	}
	if p.Unread > 0 {
		found = append(found, remark("", "not checked",
			fmt.Sprintf("rrl inspect --records reads up to %d.", Most),
			"Value and records were not compared: %d of %d records are unread.", p.Unread, p.Total)...)
	}
	return found
}

// A sign is how a fault looks in the value and the records of a pair.
type sign struct {
	fault, label string
	is           func(p *Pair, c *Config) bool
	what         string // with names that drift replaces
	mend         string
}

// What mends a drift: Go corrects an impossible value at once, and any value within an interval, when records
// have expired.
const (
	atOnce = "The next acquire of a Go Client puts it right, rrl repair does so at once."
	inTime = "Acquires of Go put it right within an interval, rrl repair does so at once."
)

// signs are tried in this order, and the first match is reported. Each means that value + permits of all
// records is not the rate.
var signs = []sign{
	{"B14", "value no integer",
		func(p *Pair, _ *Config) bool { return p.HasValue && !p.Counts },
		"The value is {text}, not an integer up to 2^53: every call of Java fails.", atOnce},
	{"B19", "value lost",
		func(p *Pair, _ *Config) bool { return !p.HasValue && p.Outstanding > 0 },
		"The value is lost, while records hold {taken} permits: Java takes the limiter for full " +
			"and grants the rate once more.", atOnce},
	{"B3", "counted twice",
		func(p *Pair, c *Config) bool { return p.HasValue && p.Number > c.Rate },
		"The value is {value}, above the rate of {rate}: availablePermits of Java has counted released " +
			"permits twice.", atOnce},
	{"B2", "records lost",
		func(p *Pair, c *Config) bool { return p.HasValue && p.Total == 0 && p.Number < c.Rate },
		"The value is {value} of {rate}, and no record exists that would bring back the other {lost}. Java " +
			"replies to every request for more than {value} with an error. The records were lost or " +
			"evicted, or a request that Java sent twice was charged twice (B4).", atOnce},
	{"B13", "permits cut off",
		func(p *Pair, _ *Config) bool { return p.Drift < 0 && p.Drift%(wire.MaxPermits+1) == 0 },
		"{lost} permits are in no record: Java was asked for more than 2^32 at once.", inTime},
	{"B4", "charged twice",
		func(p *Pair, _ *Config) bool { return p.Drift < 0 },
		"{lost} permits are in no record and would never come back: a request that Java sent twice was " +
			"charged twice.", inTime},
	{"B12", "negative request",
		func(p *Pair, c *Config) bool { return p.Drift > 0 && p.overflows(c.Rate) },
		"A record holds more permits than the rate: Java was asked for a negative number of permits.",
		inTime},
	{"B1 or B11", "granted again",
		func(p *Pair, _ *Config) bool { return p.Drift > 0 && p.Number <= 0 },
		"{taken} permits are taken, and the value is {value}. Either released permits were granted again " +
			"whose records release() of Java has left, or a lower rate has forgotten the permits in use.",
		inTime},
	{"B1 or B19", "records left",
		func(p *Pair, c *Config) bool { return p.Drift > 0 && p.newestHold(c.Rate-p.Number) },
		"Value and records make {sum}, {drift} above the rate. Either release() of Java has left the " +
			"records of released permits, or the value was lost and Java took the limiter for full.", inTime},
	{"B1", "records left",
		func(p *Pair, _ *Config) bool { return p.Drift > 0 },
		"Value and records make {sum}, {drift} above the rate: release() of Java has left the records of " +
			"released permits. They will be credited again.", inTime},
}

// drift explains a value that does not add up to the rate with the permits of all records.
func (p *Pair) drift(l *Limiter) []Finding {
	c := &l.Config
	i := slices.IndexFunc(signs, func(s sign) bool { return s.is(p, c) })
	if i < 0 {
		return nil
	}
	s := signs[i]
	if p.ID != "" && p.Counts {
		if p.Checked && p.valueRate == c.Rate+p.Drift {
			return remark("B9", "rate changed", "The next call of the client adapts it.",
				"The value is for a rate of %d: this client has not called since the rate was changed.",
				c.Rate+p.Drift)
		}
		s.fault += " or B9"
		s.what += " Or the rate was changed: Java does not notify its other clients."
	}
	taken := p.Outstanding + p.Over
	what := strings.NewReplacer(
		"{text}", fmt.Sprintf("%q", p.Value), "{value}", fmt.Sprint(p.Number), "{rate}", fmt.Sprint(c.Rate),
		"{taken}", fmt.Sprint(taken), "{sum}", fmt.Sprint(p.Number+taken),
		"{drift}", fmt.Sprint(p.Drift), "{lost}", fmt.Sprint(c.Rate-p.Number-taken),
	)
	return wrong(s.fault, s.label, s.mend, "%s", what.Replace(s.what))
}

// overflows reports whether a record holds more than the rate, and more than any request but one for a
// negative number.
func (p *Pair) overflows(rate int64) bool {
	return slices.ContainsFunc(p.Records, func(r Record) bool {
		const negative = 1 << 31
		return r.Permits > rate && r.Permits > negative
	})
}

// newestHold reports whether the newest records hold exactly the permits that are taken according to the
// value, as after a lost value and a second grant of the full rate.
func (p *Pair) newestHold(taken int64) bool {
	if taken == 0 {
		return false // all was released
	}
	sum := int64(0)
	for _, r := range slices.Backward(p.Records) {
		if sum += r.Permits; sum >= taken {
			break
		}
	}
	return sum == taken
}

package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Finding is something that is not as it should be.
type Finding struct {
	// Fault is what it looks like, as docs/faults.md counts the faults of Redisson: B1 to
	// B24. Two, as in "B1 or B19", leave the same behind. It is empty for what is none of them.
	Fault string `json:"fault"`

	ID   string `json:"id,omitempty"` // of the client whose pair it is; empty for the shared one
	What string `json:"what"`         // what was found, a sentence
	Mend string `json:"mend"`         // what mends it, a sentence

	// Remark says that the permits are right all the same: value + permits of all records =
	// rate, as far as it could be checked.
	Remark bool `json:"remark"`
}

// skew is how far ahead a record may be dated by a clock that is well.
const skew = time.Second

const (
	repair  = "The next acquire of a Go Client puts it right, rrl repair does so at once."
	repairs = "rrl repair"
	sets    = "rrl set, or SetRate, writes all fields."
)

// find returns what is wrong with a limiter.
func (l *Limiter) find() []Finding {
	found := []Finding{}
	if hash := &l.Keys[0]; hash.There() && hash.Kind != "hash" {
		return append(found, Finding{
			What: fmt.Sprintf("%q is a %s, must be a hash.", hash.Name, hash.Kind),
			Mend: "Another program uses the name. Give the limiter another one.",
		})
	}
	if !l.Set {
		return append(found, l.unset()...)
	}
	found = append(found, l.Config.find()...)
	if len(l.Config.bad) > 0 {
		return found
	}
	for i := range l.Pairs {
		found = append(found, l.Pairs[i].find(l)...)
	}
	if l.split {
		found = append(found, Finding{
			Fault: "B23", What: "The braces in the name put its keys into different slots of a cluster.",
			Mend: "On a cluster, choose another name. Elsewhere nothing is wrong.", Remark: true,
		})
	}
	return found
}

// unset says what there is of a limiter without a rate.
func (l *Limiter) unset() []Finding {
	if l.Config.Type != "" || l.Config.Rate != 0 || l.Config.Interval != 0 || len(l.Config.bad) > 0 {
		return []Finding{{Fault: "B15", What: "Half of a rate is set: rate, interval or type is missing.", Mend: sets}}
	}
	if i := slices.IndexFunc(l.Keys[1:], func(k Key) bool { return k.There() }); i >= 0 {
		return []Finding{{
			Fault: "B6 or B8",
			What:  fmt.Sprintf("No rate is set, but %q is there. A rate that Java sets is limited by it.", l.Keys[i+1].Name),
			Mend:  "rrl set, TrySetRate and SetRate of Go remove it, and so does rrl delete.",
		}}
	}
	return nil
}

// find says what is wrong with the fields.
func (c *Config) find() []Finding {
	switch {
	case len(c.bad) > 0:
		return []Finding{{
			Fault: "B14 or B15", What: "Not an integer up to 2^53: " + strings.Join(c.bad, ", ") + ".", Mend: sets,
		}}
	case c.Rate < 1:
		return []Finding{{
			Fault: "B22", What: fmt.Sprintf("The rate is %d: every request is more than the rate.", c.Rate), Mend: sets,
		}}
	case c.Interval < 1:
		return []Finding{{
			Fault: "B22", What: fmt.Sprintf("The interval is %d ms: permits are back at once, so nothing is limited.",
				c.Interval), Mend: sets,
		}}
	}
	return nil
}

// find says what is wrong with a pair.
func (p *Pair) find(l *Limiter) []Finding {
	value, permits := l.keysOf(p)
	if (p.ID != "") != l.Config.PerClient() {
		return p.unused(value, permits, l)
	}
	for _, key := range []struct {
		*Key
		kind string
	}{{value, "string"}, {permits, "zset"}} {
		if key.There() && key.Kind != key.kind {
			return []Finding{{
				ID: p.ID, What: fmt.Sprintf("%q is a %s, must be a %s: every call fails.", key.Name, key.Kind, key.kind),
				Mend: "Another program has written it. rrl delete, then rrl set.",
			}}
		}
	}
	found := append(p.drift(&l.Config), p.remarks(l)...)
	hash := &l.Keys[0]
	switch {
	case p.ID == "" && hash.TTL >= 0 && value.TTL == -1:
		found = append(found, Finding{
			Fault: "B6", What: fmt.Sprintf("The hash expires in %d ms, the value does not: it would limit the next rate.",
				hash.TTL), Mend: "The next acquire of Go or Java.", Remark: true,
		})
	case permits.TTL >= 0 && value.TTL == -1:
		found = append(found, Finding{
			Fault: "B2", What: fmt.Sprintf("The records expire in %d ms, the value does not: it will be left alone.",
				permits.TTL), Mend: "PERSIST " + permits.Name, Remark: true,
		})
	}
	for i := range found {
		found[i].ID = p.ID
	}
	return found
}

// unused says what is left of the pair that the type of the limiter does not use.
func (p *Pair) unused(value, permits *Key, l *Limiter) []Finding {
	for _, key := range []*Key{value, permits} {
		if key.There() {
			return []Finding{{
				Fault: "B8", ID: p.ID, Remark: true,
				What: fmt.Sprintf("%q is left from another type; %s does not use it.", key.Name, l.Config.Type),
				Mend: "rrl set, or SetRate, removes it.",
			}}
		}
	}
	return nil
}

// drift says what is wrong if value + permits of all records is not the rate, and how that looks.
func (p *Pair) drift(c *Config) []Finding {
	sum := p.Outstanding + p.Over
	tell := func(fault, what string, args ...any) []Finding {
		return []Finding{{Fault: fault, What: fmt.Sprintf(what, args...), Mend: repair}}
	}
	switch {
	case p.HasValue && !p.Counts:
		return tell("B14", "The value is %q, no integer up to 2^53: every call of Java fails.", p.Value)
	case !p.HasValue && p.Outstanding > 0:
		return tell("B19", "The value is lost, and records with %d permits are there: Java takes the limiter for full and "+
			"grants the rate once more.", p.Outstanding)
	case !p.HasValue || p.Drift == 0 && p.Checked:
		return nil
	case p.Number > c.Rate && p.Total == 0:
		return tell("B3", "The value is %d, above the rate, without a record: availablePermits of Java has counted released "+
			"permits twice.", p.Number)
	case p.Total == 0:
		return tell("B2", "The value is %d of %d, and no record is there to bring back the other %d. Java answers every "+
			"request for more than %d with an error. The records were lost or evicted, or a request that Java "+
			"sent twice was charged twice (B4).", p.Number, c.Rate, c.Rate-p.Number, p.Number)
	case !p.Checked:
		return nil
	case p.Drift < 0:
		return p.tooLow(tell)
	case p.Number > c.Rate:
		return tell("B3", "The value is %d, above the rate of %d: availablePermits of Java has counted released permits twice.",
			p.Number, c.Rate)
	case slices.ContainsFunc(p.Records, func(r Record) bool { return r.Permits > c.Rate && r.Permits > 1<<31 }):
		return tell("B12", "A record holds more permits than the rate: Java was asked for a negative number of permits.")
	case p.Number <= 0:
		return tell("B11", "%d permits are taken, but the value is %d: a lower rate has forgotten what was taken "+
			"before.", sum, p.Number)
	case p.full(c.Rate - p.Number):
		return tell("B1 or B19", "Value and records make %d, %d above the rate. Either release() of Java has left the records "+
			"of released permits, or the value was lost and Java took the limiter for full.", p.Number+sum, p.Drift)
	}
	return tell("B1", "Value and records make %d, %d above the rate: release() of Java has left the records of released "+
		"permits. They will be credited again.", p.Number+sum, p.Drift)
}

// tooLow says how a value looks that is too low.
func (p *Pair) tooLow(tell func(fault, what string, args ...any) []Finding) []Finding {
	if -p.Drift%(wire.MaxPermits+1) == 0 {
		return tell("B13", "%d permits are in no record: Java was asked for more than 2^32 at once.", -p.Drift)
	}
	return tell("B4", "%d permits are in no record and would never come back: a request that Java sent twice was "+
		"charged twice.", -p.Drift)
}

// full reports whether some of the newest records, and not all, hold just the permits that are taken by
// the value. So it is after the value was lost and the full rate was granted again.
func (p *Pair) full(taken int64) bool {
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

// remarks says what is odd about the records.
func (p *Pair) remarks(l *Limiter) []Finding {
	var found []Finding
	var over, none, strange, ahead int
	formats := map[string]bool{}
	for _, r := range p.Records {
		switch {
		case r.Format == "":
			strange++
		case r.Over:
			over++
		case r.Permits == 0:
			none++
		case r.Ahead && !r.ByGo && r.At.Sub(l.At) > skew:
			ahead++
		}
		if r.Format != "" {
			formats[r.Format] = true
		}
	}
	remark := func(n int, fault, what, mend string) {
		if n > 0 {
			found = append(found, Finding{Fault: fault, What: fmt.Sprintf(what, n), Mend: mend, Remark: true})
		}
	}
	const many = 1000 // a call counts so many
	remark(strange, "", "%d records are of a form that no version of Redisson writes.", repairs+" drops them.")
	remark(over/many*many, "B16", "%d records and more are over and wait for a call that removes them.",
		"Acquires of Go remove 1,000 each.")
	remark(none, "B12", "%d records hold no permits: they keep waiters of Java busy.", repairs+" drops them.")
	remark(ahead, "B5", "%d records are dated ahead of the clock of Redis: the clock of a Java service is fast.",
		"Set its clock right.")
	if len(formats) > 1 {
		remark(len(formats), "", "The records are of %d formats: Redisson of one version may not read those of the other.",
			"When the older clients have stopped: "+repairs+".")
	}
	if p.Unread > 0 {
		found = append(found, Finding{
			What: fmt.Sprintf("Value and records were not compared: %d of %d records were not read.", p.Unread, p.Total),
			Mend: fmt.Sprintf("rrl inspect --records reads up to %d.", Most), Remark: true,
		})
	}
	return found
}

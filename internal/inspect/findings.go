package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// A Finding is something that is not as it should be.
type Finding struct {
	// Fault is what it looks like, as docs/faults.md counts the faults of Redisson: B1 to
	// B24. Two, as in "B1 or B19", leave the same behind. It is empty for what is none of them.
	Fault string `json:"fault"`

	ID   string `json:"id,omitempty"` // of the client whose pair it is; empty for the shared one
	What string `json:"what"`         // what was found, a sentence; names in it are quoted
	Mend string `json:"mend"`         // what mends it, a sentence or a command

	// Remark says that the permits are right all the same: value + permits of all records =
	// rate, as far as it could be checked.
	Remark bool `json:"remark"`

	label string // of what is found of a lock
}

// allRemarks reports whether nothing that was found is wrong.
func allRemarks(found []Finding) bool {
	return !slices.ContainsFunc(found, func(f Finding) bool { return !f.Remark })
}

const sets = "rrl set, or SetRate, writes all fields."

// find returns what is wrong with a limiter.
func (l *Limiter) find() []Finding {
	found := []Finding{}
	if hash := &l.Keys[0]; hash.There() && hash.Kind != "hash" {
		return one("", "Another program uses the name. Give the limiter another one.",
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
		return append(found, one("B23", "Give the limiter another name.",
			"The braces in the name put its keys into different slots: on this cluster every call fails.")...)
	}
	for i := range l.Pairs {
		found = append(found, l.Pairs[i].find(l)...)
	}
	if l.split {
		found = append(found, remark("B23", "On a cluster, choose another name. Elsewhere nothing is wrong.",
			"The braces in the name put its keys into different slots of a cluster.")...)
	}
	return found
}

// unset says what there is of a limiter without a rate.
func (l *Limiter) unset() []Finding {
	c := &l.Config
	if c.Type != "" || c.Rate != 0 || c.Interval != 0 || len(c.bad) > 0 {
		return one("B15", sets, "Half of a rate is set: rate, interval or type is missing.")
	}
	if i := slices.IndexFunc(l.Keys[1:], func(k Key) bool { return k.There() }); i >= 0 {
		mend := "rrl set, TrySetRate and SetRate of Go remove it, and so does rrl delete."
		if id := l.Pairs[i/2].ID; id != "" {
			mend = "rrl delete --id " + words.Name(id) + " removes it."
		}
		return one("B6 or B8", mend,
			"No rate is set, but %q is there. A rate that Java sets is limited by it.", l.Keys[i+1].Name)
	}
	return nil
}

// find says what is wrong with the fields.
func (c *Config) find() []Finding {
	switch {
	case len(c.bad) > 0:
		return one("B14 or B15", sets, "Not an integer up to 2^53: %s.", c.Unreadable())
	case c.Rate < 1:
		return one("B22", sets, "The rate is %d: every request is more than the rate.", c.Rate)
	case c.Interval < 1:
		return one("B22", sets, "The interval is %d ms: permits are back at once, so nothing is limited.",
			c.Interval)
	}
	return nil
}

// find says what is wrong with a pair.
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

// misused says which key is of another kind.
func (p *Pair) misused(value, permits *Key) []Finding {
	key, kind := value, "string"
	if !key.There() || key.Kind == kind {
		key, kind = permits, "zset"
	}
	if !key.There() || key.Kind == kind {
		return nil
	}
	return one("", "Another program has written it. rrl delete, then rrl set.",
		"%q is a %s, must be a %s: every call fails.", key.Name, key.Kind, kind)
}

// unused says what is left of the pair that the type of the limiter does not use.
func (p *Pair) unused(value, permits *Key, l *Limiter) []Finding {
	for _, key := range []*Key{value, permits} {
		if key.There() {
			return remark("B8", "rrl set, or SetRate, removes it.",
				"%q is left from another type; %s does not use it.", key.Name, l.Config.Type)
		}
	}
	return nil
}

// lives says which keys do not expire together.
func (p *Pair) lives(value, permits *Key, l *Limiter) []Finding {
	hash := &l.Keys[0]
	switch {
	case p.ID == "" && hash.TTL >= 0 && value.TTL == -1:
		return remark("B6", "The next acquire of Go or Java gives it the same time.",
			"The hash expires in %d ms, the value does not: it would limit the next rate.", hash.TTL)
	case permits.TTL >= 0 && value.TTL == -1:
		return remark("B2", "PERSIST "+words.Name(permits.Name),
			"The records expire in %d ms, the value does not: it will be left alone.", permits.TTL)
	}
	return nil
}

// one returns a single finding.
func one(fault, mend, what string, args ...any) []Finding {
	return []Finding{{Fault: fault, Mend: mend, What: fmt.Sprintf(what, args...)}}
}

// remark returns a single finding by which the permits are right all the same.
func remark(fault, mend, what string, args ...any) []Finding {
	found := one(fault, mend, what, args...)
	found[0].Remark = true
	return found
}

// Label names the finding in a word or two: the fault of Redisson, or what is wrong with a lock, or "other".
func (f *Finding) Label() string { return cmp.Or(f.Fault, f.label, "other") }

package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A sign is how a fault looks in the value and the records of a pair.
type sign struct {
	fault, label string
	is           func(p *Pair, c *Config) bool
	what         string // with names that drift replaces
	mend         string
}

// What mends a drift: Go rebuilds an impossible value at once, and each value once an interval, when records
// have expired.
const (
	atOnce = "The next acquire of a Go Client puts it right, rrl repair does so at once."
	inTime = "Acquires of Go put it right within an interval, rrl repair does so at once."
)

// signs are looked for in this order, and the first match is reported. All of them mean that value + permits
// of all records is not the rate.
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

// drift explains a value that, with the permits of all records, does not make the rate.
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

// newestHold reports whether the newest records hold just the permits that are taken according to the value,
// as after a lost value and a second grant of the full rate.
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

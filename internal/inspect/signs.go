package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A sign is how a fault looks in the value and the records of a pair.
type sign struct {
	fault string
	is    func(p *Pair, c *Config) bool
	what  string // with names that drift replaces
	mend  string
}

// What mends a drift: Go rebuilds a value at once that cannot be right, and each value once an interval, when
// records have expired.
const (
	atOnce = "The next acquire of a Go Client puts it right, rrl repair does so at once."
	inTime = "Acquires of Go put it right within an interval, rrl repair does so at once."
)

// signs are looked for in this order, and the first that is there is told. All of them mean that value +
// permits of all records is not the rate.
var signs = []sign{
	{"B14", func(p *Pair, _ *Config) bool { return p.HasValue && !p.Counts },
		"The value is {text}, no integer up to 2^53: every call of Java fails.", atOnce},
	{"B19", func(p *Pair, _ *Config) bool { return !p.HasValue && p.Outstanding > 0 },
		"The value is lost, and records with {taken} permits are there: Java takes the limiter for full " +
			"and grants the rate once more.", atOnce},
	{"B3", func(p *Pair, c *Config) bool { return p.HasValue && p.Number > c.Rate },
		"The value is {value}, above the rate of {rate}: availablePermits of Java has counted released " +
			"permits twice.", atOnce},
	{"B2", func(p *Pair, c *Config) bool { return p.HasValue && p.Total == 0 && p.Number < c.Rate },
		"The value is {value} of {rate}, and no record is there to bring back the other {lost}. Java " +
			"replies to every request for more than {value} with an error. The records were lost or " +
			"evicted, or a request that Java sent twice was charged twice (B4).", atOnce},
	{"B13", func(p *Pair, _ *Config) bool { return p.Drift < 0 && p.Drift%(wire.MaxPermits+1) == 0 },
		"{lost} permits are in no record: Java was asked for more than 2^32 at once.", inTime},
	{"B4", func(p *Pair, _ *Config) bool { return p.Drift < 0 },
		"{lost} permits are in no record and would never come back: a request that Java sent twice was " +
			"charged twice.", inTime},
	{"B12", func(p *Pair, c *Config) bool { return p.Drift > 0 && p.overflows(c.Rate) },
		"A record holds more permits than the rate: Java was asked for a negative number of permits.",
		inTime},
	{"B1 or B11", func(p *Pair, _ *Config) bool { return p.Drift > 0 && p.Number <= 0 },
		"{taken} permits are taken, and the value is {value}. Either released permits were granted again " +
			"whose records release() of Java has left, or a lower rate has forgotten what was taken.",
		inTime},
	{"B1 or B19", func(p *Pair, c *Config) bool { return p.Drift > 0 && p.newestHold(c.Rate-p.Number) },
		"Value and records make {sum}, {drift} above the rate. Either release() of Java has left the " +
			"records of released permits, or the value was lost and Java took the limiter for full.", inTime},
	{"B1", func(p *Pair, _ *Config) bool { return p.Drift > 0 },
		"Value and records make {sum}, {drift} above the rate: release() of Java has left the records of " +
			"released permits. They will be credited again.", inTime},
}

// drift says what is wrong if value + permits of all records is not the rate.
func (p *Pair) drift(l *Limiter) []Finding {
	c := &l.Config
	i := slices.IndexFunc(signs, func(s sign) bool { return s.is(p, c) })
	if i < 0 {
		return nil
	}
	fault, text := signs[i].fault, signs[i].what
	if p.ID != "" && p.Counts {
		was := func(s Session) bool { return s.Rate == c.Rate+p.Drift }
		if p.Checked && slices.ContainsFunc(l.Sessions, was) {
			return remark("B9", "The next call of the client adapts it.",
				"The value is for a rate of %d: this client has not called since the rate was changed.",
				c.Rate+p.Drift)
		}
		fault += " or B9"
		text += " Or the rate was changed, of which Java does not tell its other clients."
	}
	taken := p.Outstanding + p.Over
	what := strings.NewReplacer(
		"{text}", fmt.Sprintf("%q", p.Value), "{value}", fmt.Sprint(p.Number), "{rate}", fmt.Sprint(c.Rate),
		"{taken}", fmt.Sprint(taken), "{sum}", fmt.Sprint(p.Number+taken),
		"{drift}", fmt.Sprint(p.Drift), "{lost}", fmt.Sprint(c.Rate-p.Number-taken),
	)
	return []Finding{{Fault: fault, What: what.Replace(text), Mend: signs[i].mend}}
}

// overflows reports whether a record holds more than the rate, and more than any request but one for a
// negative number.
func (p *Pair) overflows(rate int64) bool {
	return slices.ContainsFunc(p.Records, func(r Record) bool {
		const negative = 1 << 31
		return r.Permits > rate && r.Permits > negative
	})
}

// newestHold reports whether the newest records hold just the permits that the value says are taken. So it
// is after the value was lost and the full rate was granted again.
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

package inspect

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// configFields are the fields that Read and Scan ask for, in this order.
var configFields = []string{wire.Rate, wire.Interval, wire.Type, wire.KeepAlive, wire.Longest}

// decode decodes the fields of the hash and reports whether a rate is set: rate, interval and type exist.
// Redisson takes any type but 1 for OVERALL.
func (c *Config) decode(texts []any) (set bool) {
	set = true
	numbers := make([]int64, len(configFields))
	for i, field := range configFields {
		text, there := texts[i].(string)
		if field == wire.Longest {
			_, _ = fmt.Sscanf(text, "%d %d", new(int64), &c.turns) // otherwise there are none
			continue
		} else if !there {
			set = set && field == wire.KeepAlive
			continue
		}
		n, ok := integer(text)
		numbers[i] = n
		if field == wire.Type {
			c.Type = overall
			if text == "1" {
				c.Type = perClient
			}
		} else if !ok {
			c.bad = append(c.bad, fmt.Sprintf("%s is %.*q", field, shown, text))
		}
	}
	c.Rate, c.Interval, c.KeepAlive = numbers[0], numbers[1], numbers[3]
	return set
}

// integer reads an integer as the scripts of Java and Go do: 1e3 is one; 1.5 is not, nor is a number
// that a float64 cannot hold exactly.
func integer(text string) (int64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	const most = 1 << 53
	if err != nil || f != math.Trunc(f) || math.Abs(f) > most {
		return 0, false
	}
	return int64(f), true
}

func (p *Pair) decodeValue(text string, there bool) {
	p.Value, p.HasValue = text, there
	if there {
		p.Number, p.Counts = integer(text)
	}
}

// decodeRecords decodes the oldest and the newest records, two parts that overlap if all records were read.
func (p *Pair) decodeRecords(oldest, newest []redis.Z) {
	if read := int64(len(oldest) + len(newest)); p.Total > read {
		p.Unread, p.Gap = p.Total-read, len(oldest)
	} else {
		newest = newest[max(0, min(read-p.Total, int64(len(newest)))):]
	}
	p.Records = make([]Record, 0, len(oldest)+len(newest))
	for _, z := range append(oldest[:len(oldest):len(oldest)], newest...) {
		member, ok := z.Member.(string)
		if !ok {
			continue // go-redis returns texts
		}
		r := Record{At: moment(z.Score), score: z.Score}
		r.Permits, _ = wire.Permits(member)
		if format, byGo := wire.Recognise(member); format >= 0 {
			r.Format, r.ByGo = wire.Layouts[format].Name, byGo
			r.Lease = wire.Lease(member, format)
		}
		p.Records = append(p.Records, r)
	}
}

// moment returns the time at millis, or the nearest from 1970 to 9999.
func moment(millis float64) time.Time {
	const latest = 253402300799999
	return time.UnixMilli(int64(min(max(millis, 0), latest))).UTC()
}

// judge computes the numbers of a pair from its records.
func (p *Pair) judge(l *Limiter) {
	now := float64(l.At.UnixMilli())
	c := &l.Config
	for i := range p.Records {
		r := &p.Records[i]
		r.Ahead = r.score > now
		if r.Over = r.score <= now-float64(c.Interval); r.Over {
			p.Over += r.Permits
		} else {
			p.Outstanding += r.Permits
			if r.Lease && r.Ahead {
				p.Leased += r.Permits
			}
		}
	}
	p.Checked = l.Set && p.Unread == 0 && (p.Counts || !p.HasValue) && !l.takesTurns()
	if p.Checked && p.HasValue {
		p.Drift = p.Number + p.Outstanding + p.Over - c.Rate
	}
	left := p.left(l)
	p.Remaining = max(0, left)
	if p.Unread > 0 {
		p.Outstanding = max(0, c.Rate-left)
	}
	if l.Set && left < 0 {
		p.Debt = -left
		p.PaidIn = p.until(0, l)
	}
	p.forecast(l)
}

// left returns the permits that Go reports, below 0 for a debt: the value and the expired permits, unless Go
// sums the records (scripts/parts/plain.lua says when).
func (p *Pair) left(l *Limiter) int64 {
	rate, value := l.Config.Rate, p.Number+p.Over
	if p.Unread > 0 {
		if p.Records[len(p.Records)-1].Over {
			return rate // all have expired
		}
		p.AtLeast = p.Records[p.Gap-1].Over
	}
	if !p.Counts || p.Unread == 0 && p.rebuilt(l) {
		value = rate - p.Outstanding
	}
	return min(value, rate)
}

// rebuilt reports whether Go sums the records.
func (p *Pair) rebuilt(l *Limiter) bool {
	const few = 10
	rate, value, live := l.Config.Rate, p.Number+p.Over, int64(0)
	for i := range p.Records {
		if !p.Records[i].Over {
			live++
		}
	}
	switch over := live < p.Total; {
	case p.Number > rate, p.Number < 1, live == 0, l.takesTurns():
		return true
	case over && (live <= few || value+live > rate):
		return true
	}
	return p.ID != "" && (p.valueRate != rate || p.valueMs != max(0, l.Config.Interval))
}

// takesTurns reports whether versions with other intervals use the limiter: then records that have expired
// for one version stay, and each call rebuilds the value (scripts/parts/config.lua).
func (l *Limiter) takesTurns() bool { return l.Config.turns > l.At.UnixMilli() }

// decodeVoucher reads for which rate and interval the own value of a client is right.
func (p *Pair) decodeVoucher(fields []any) {
	p.valueRate = math.MinInt64
	for _, field := range fields {
		var at, zero int64
		_, err := fmt.Sscanf(fmt.Sprint(field), "%d %d %d %d %d", &p.valueMs, &at, &zero, &zero, &p.valueRate)
		if err != nil {
			p.valueRate = math.MinInt64
		}
	}
}

// forecast computes when 1 permit, a tenth and all of the rate are available if none are taken meanwhile.
func (p *Pair) forecast(l *Limiter) {
	p.Back = []Return{}
	if l.Config.Rate < 1 {
		return
	}
	const tenth = 10
	for _, n := range []int64{1, (l.Config.Rate + tenth - 1) / tenth, l.Config.Rate} {
		if k := len(p.Back); k == 0 || p.Back[k-1].Permits != n {
			p.Back = append(p.Back, Return{n, p.until(n, l)})
		}
	}
}

// until returns the ms until n permits are available, or until a debt is paid if n is 0.
func (p *Pair) until(n int64, l *Limiter) int64 {
	sum := p.Remaining - p.Debt
	if n <= sum {
		return 0
	}
	if p.Unread == 0 {
		sum = l.Config.Rate - p.Outstanding
	} else if n == l.Config.Rate && len(p.Records) > 0 {
		return p.backIn(len(p.Records)-1, l) // the newest is the last
	}
	for i, r := range p.Records {
		if p.Unread > 0 && i == p.Gap {
			break
		}
		if r.Over {
			continue
		}
		if sum += r.Permits; sum >= n {
			return p.backIn(i, l)
		}
	}
	return Unknown
}

// backIn returns the ms until the permits of a record are back.
func (p *Pair) backIn(i int, l *Limiter) int64 {
	const most = 1 << 53
	in := p.Records[i].score + float64(l.Config.Interval) - float64(l.At.UnixMilli())
	return int64(min(max(in, 0), most))
}

package rules

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/yamlfile"
	"github.com/redisson-go/rratelimiter/limit"
)

// mostParts is the most Parts of a slidingwindow.Counter.
const mostParts = 100

// limits reads the limits of a rule, whose other fields were read before.
func (p *parser) limits(r *rule, n *yaml.Node) {
	lines := make(map[string]int)
	entries := p.some("limits", n)
	for _, entry := range entries {
		before := p.Found
		d, name := p.limit(entry, len(entries))
		if first := lines[name]; first > 0 && name != "" {
			p.wrong(entry.Line, "limit %s already exists, in line %d", name, first)
		}
		lines[name] = entry.Line
		d.policy, d.key, d.by = r.name, r.name, described(r.by)
		if name != "" {
			d.policy += "/" + name
			d.key += ":" + name
		}
		if p.Found == before {
			p.makes(r, d, entry.Line)
		}
		r.limits = append(r.limits, d)
	}
}

// makes reports a definition whose limiters cannot be made, or would refuse every call.
func (p *parser) makes(r *rule, d definition, line int) {
	if _, err := algorithms[d.algorithm].inMemory(d.numbers); err != nil {
		p.wrong(line, "%s", strings.TrimPrefix(err.Error(), limit.ErrInvalidArgument.Error()+": "))
	} else if r.settle && d.lease > 0 {
		p.wrong(line, "settle is not for %s, whose permits come back when the call ends", d.algorithm)
	}
	if most := d.atMost(); r.cost > most {
		p.wrong(line, "the cost is %d, and the limit has at most %d: no call would pass", r.cost, most)
	}
}

// atMost returns the most permits that can be there.
func (n numbers) atMost() int64 {
	if n.burst > 0 {
		return n.burst
	}
	return max(n.rate, n.most)
}

// limit reads a limit, one of several, and returns its name, which may be empty for a single limit.
func (p *parser) limit(n *yaml.Node, several int) (d definition, name string) {
	slashed := false
	lines := p.Mapping("a limit", n, fields{
		"name":      func(what string, n *yaml.Node) { name = p.name(what, n) },
		"algorithm": func(what string, n *yaml.Node) { d.algorithm = p.algorithm(what, n) },
		"rate":      func(what string, n *yaml.Node) { slashed = p.rate(&d.numbers, what, n) },
		"per":       func(what string, n *yaml.Node) { p.per(&d.numbers, what, n) },
		"zone":      func(what string, n *yaml.Node) { d.zone = p.zone(what, n) },
		"from":      func(what string, n *yaml.Node) { d.from = p.from(what, n) },
		"burst":     func(what string, n *yaml.Node) { d.burst = p.number(what, n, form.MostPermits) },
		"parts":     func(what string, n *yaml.Node) { d.parts = int(p.number(what, n, mostParts)) },
		"most":      func(what string, n *yaml.Node) { d.most = p.number(what, n, form.MostPermits) },
		"lease":     func(what string, n *yaml.Node) { d.lease = p.Time(what, n) },
	})
	if n.Kind != yaml.MappingNode {
		return d, name
	}
	if lines["name"] == 0 && several > 1 {
		p.wrong(n.Line, "a limit has no name, must have one where a rule has several")
	}
	switch {
	case slashed && lines["per"] > 0:
		p.wrong(lines["per"], "per appears twice, first in line %d behind the rate", lines["rate"])
	case slashed:
		lines["per"] = lines["rate"]
	}
	switch {
	case lines["algorithm"] == 0 && d.unit > 0:
		d.algorithm = calendar
	case lines["algorithm"] == 0:
		d.algorithm = redisson
	case d.algorithm == calendar && d.per > 0:
		p.wrong(lines["per"], "per is %v, must be day, week, month or year for %s", d.per, calendar)
	case d.algorithm != calendar && d.unit > 0:
		p.wrong(lines["per"], "per is a unit of the calendar, must be a time such as 24h for %s", d.algorithm)
	}
	p.fits(d.algorithm, lines, n.Line)
	return d, name
}

// fits reports missing fields and fields that an algorithm does not have.
func (p *parser) fits(name string, lines map[string]int, line int) {
	a, ok := algorithms[name]
	if !ok {
		return
	}
	for _, f := range []string{"rate", "per", "burst", "parts", "most", "lease", "zone", "from"} {
		switch needed, optional := a.needs(f), a.takes(f); {
		case lines[f] > 0 && !needed && !optional:
			p.wrong(lines[f], "%s is not for %s", f, name)
		case lines[f] == 0 && needed:
			p.wrong(line, "a limit has no %s, must have one for %s", f, name)
		}
	}
}

func (p *parser) algorithm(what string, n *yaml.Node) string {
	text, ok := p.text(what, n)
	if _, exists := algorithms[text]; ok && !exists {
		all := slices.Sorted(maps.Keys(algorithms))
		p.wrong(n.Line, "%s is %s, must be one of %s", what, yamlfile.Quoted(n), strings.Join(all, ", "))
	}
	return text
}

// rate reads "100/1m", or a number without a time. slashed reports whether it has a time.
func (p *parser) rate(d *numbers, what string, n *yaml.Node) (slashed bool) {
	rate, per, slashed := strings.Cut(n.Value, "/")
	if slashed && n.Kind == yaml.ScalarNode {
		first, second := *n, *n
		first.Value, second.Value = strings.TrimSpace(rate), strings.TrimSpace(per)
		d.rate = p.number(what, &first, form.MostPermits)
		p.per(d, "the time of "+what, &second)
		return true
	}
	d.rate = p.number(what, n, form.MostPermits)
	return false
}

// per reads a unit of the calendar, or a time.
func (p *parser) per(d *numbers, what string, n *yaml.Node) {
	_, err := time.ParseDuration(n.Value)
	switch d.unit = units[n.Value]; {
	case d.unit > 0:
	case err != nil && n.Kind == yaml.ScalarNode:
		p.wrong(n.Line, "%s is %s, must be day, week, month, year, or a time such as 30s, 1m or 24h", what,
			yamlfile.Described(n))
	default:
		d.per = p.Time(what, n)
	}
}

// zone reads a time zone. That of the machine may differ from that of another one.
func (p *parser) zone(what string, n *yaml.Node) string {
	text, ok := p.text(what, n)
	if _, err := time.LoadLocation(text); ok && (err != nil || text == "Local") {
		p.wrong(n.Line, "%s is %s, must be a time zone such as Europe/Berlin", what, yamlfile.Quoted(n))
		return ""
	}
	return text
}

// from reads a date, or a time.
func (p *parser) from(what string, n *yaml.Node) string {
	text, ok := p.text(what, n)
	if _, err := time.Parse(fromLayout(text), text); ok && err != nil {
		p.wrong(n.Line, "%s is %s, must be a date such as 2026-01-15, or with a time, 2026-01-15T08:30", what,
			yamlfile.Quoted(n))
	}
	return text
}

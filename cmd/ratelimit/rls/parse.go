package rls

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/redisson-go/rratelimiter/internal/yamlfile"
)

// The algorithms of rate_limit.algorithm.
const (
	exact         = "rratelimiter"
	fixedWindow   = "fixed_window"
	slidingWindow = "sliding_window"
	gcra          = "gcra"
	tokenBucket   = "token_bucket"
	concurrent    = "concurrency"
	calendar      = "calendar" // only by Options.Calendar
)

var algorithms = []string{exact, fixedWindow, slidingWindow, gcra, tokenBucket, concurrent}

// What happens when Redis does not reply: the values of fallback.
const (
	fallbackLocal = "local"
	fallbackAllow = "allow"
	fallbackDeny  = "deny"
	fallbackError = "error"
)

var fallbacks = []string{fallbackLocal, fallbackAllow, fallbackDeny, fallbackError}

// Parse reads configuration files: the YAML of the reference service, with the additions in
// docs/envoy.md. merge allows several files for one domain, and joins their descriptors.
//
// The error joins the mistakes of all files, each a *Mistake: the first 100 of each file.
func Parse(files []File, merge bool) (*Config, error) {
	c := &Config{domains: make(map[string]*domain)}
	var all []error
	for _, f := range files {
		p := parser{file: f.Name, config: c, merge: merge}
		p.read(f.Data)
		for _, m := range p.Mistakes {
			all = append(all, &Mistake{File: f.Name, Line: m.Line, Key: m.Key, Text: m.Text})
		}
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return c, nil
}

// A parser reads a file into a Config.
type parser struct {
	reader
	file   string
	config *Config
	merge  bool
	domain *domain
}

func (p *parser) read(data []byte) {
	p.Paths, p.Aliases, p.Most = true, true, max(mostNodes, len(data))
	documents, err := yamlfile.Decode(data)
	switch {
	case err != nil:
		line, reason := yamlfile.Locate(data, err)
		p.Wrong(line, "", "%s", reason)
	case len(documents) == 0:
		p.Wrong(0, "", "the file is empty, must have a domain")
	case len(documents) > 1:
		p.wrong(documents[1], "", "a second document begins, must be one")
	default:
		p.root(documents[0].Content[0])
	}
}

// root reads a domain. Its keys may come in any order, so that descriptors are read last.
func (p *parser) root(n *yaml.Node) {
	d := &domain{line: n.Line, file: p.file, fallback: fallbackLocal}
	p.domain = d
	var descriptors *yaml.Node
	p.Mapping("", n, fields{
		"domain":      func(path string, n *yaml.Node) { d.name = p.text(n, path) },
		"all_or_none": func(path string, n *yaml.Node) { d.allOrNone = p.flag(n, path) },
		"fallback":    func(path string, n *yaml.Node) { d.fallback = p.oneOf(n, path, fallbacks) },
		"descriptors": func(_ string, n *yaml.Node) { descriptors = n },
	})
	before := p.config.domains[d.name]
	switch {
	case d.name == "":
		p.wrong(n, "domain", "is missing or empty, must have a name")
	case before != nil && !p.merge:
		p.wrong(n, "domain", "is %q, which %s has already", d.name, before.file)
	case before != nil:
		if before.allOrNone != d.allOrNone || before.fallback != d.fallback {
			p.wrong(n, "domain", "is %q, which %s has with another all_or_none or fallback",
				d.name, before.file)
		}
		p.domain = before
	default:
		p.config.domains[d.name] = d
	}
	p.descriptors(&p.domain.root, descriptors, "descriptors", inherited{
		path: p.domain.name, fallback: p.domain.fallback,
	})
}

// inherited is what a descriptor inherits from those above it.
type inherited struct {
	path     string
	fallback string
	dynamic  bool
	depth    int
}

// deepest bounds the levels of descriptors. An alias of a descriptor inside itself has no end.
const deepest = 50

func (p *parser) descriptors(parent *node, n *yaml.Node, path string, from inherited) {
	if from.depth++; n != nil && from.depth > deepest {
		p.wrong(n, path, "is a level too deep, must be at most %d levels", deepest)
		return
	}
	for i, entry := range p.list(n, path) {
		if p.Ended() {
			return
		}
		p.descriptor(parent, entry, fmt.Sprintf("%s[%d]", path, i), from)
	}
}

func (p *parser) descriptor(parent *node, n *yaml.Node, path string, from inherited) {
	child := &node{}
	r := &rule{domain: p.domain, fallback: from.fallback, algorithm: exact, charge: true}
	var limit, descriptors, metadata *yaml.Node
	p.Mapping(path, n, fields{
		"key":             func(path string, n *yaml.Node) { child.key = p.text(n, path) },
		"value":           func(path string, n *yaml.Node) { child.value = p.text(n, path) },
		"shadow_mode":     func(path string, n *yaml.Node) { r.shadow = p.flag(n, path) },
		"quota_mode":      func(path string, n *yaml.Node) { r.quota = p.flag(n, path) },
		"detailed_metric": func(path string, n *yaml.Node) { r.detailed = p.flag(n, path) },
		"value_to_metric": func(path string, n *yaml.Node) { child.valueToMetric = p.flag(n, path) },
		"share_threshold": func(path string, n *yaml.Node) { child.shareThreshold = p.flag(n, path) },
		"name":            func(path string, n *yaml.Node) { r.limiter = p.text(n, path) },
		"fallback":        func(path string, n *yaml.Node) { r.fallback = p.fallback(n, path) },
		"rate_limit":      func(_ string, n *yaml.Node) { limit = n },
		"descriptors":     func(_ string, n *yaml.Node) { descriptors = n },
		"metadata":        func(_ string, n *yaml.Node) { metadata = n },
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	r.path = from.path + "." + child.key
	if child.value != "" {
		r.path += "_" + child.value
	}
	r.dynamic = r.detailed || child.valueToMetric || from.dynamic
	switch {
	case child.key == "":
		p.wrong(n, path+".key", "is missing or empty, must have a name")
	case strings.Contains(child.key, "*"):
		p.wrong(n, path+".key", "is %q, must be without *: only values have patterns", child.key)
	case !parent.add(child):
		p.wrong(n, path, "is %s, which is there already", r.path)
	case child.shareThreshold && child.parts == nil:
		p.wrong(n, path+".share_threshold", "is true, must be with a value that has a *")
	}
	if limit != nil && limit.Tag != "!!null" {
		child.rule = r
		p.limit(r, limit, path+".rate_limit")
		r.metadata = p.metadata(metadata, path+".metadata")
	} else if r.limiter != "" {
		p.wrong(n, path+".name", "is %q, must be with a rate_limit", r.limiter)
	}
	p.descriptors(child, descriptors, path+".descriptors",
		inherited{r.path, r.fallback, from.dynamic || child.valueToMetric, from.depth})
}

// fallback reads the fallback of a descriptor. Limits that decide together fall back together.
func (p *parser) fallback(n *yaml.Node, path string) string {
	fallback := p.oneOf(n, path, fallbacks)
	if p.domain.allOrNone && fallback != p.domain.fallback {
		p.wrong(n, path, "is %s, must be that of the file in a domain with all_or_none: %s",
			fallback, p.domain.fallback)
	}
	return fallback
}

// limit reads a rate_limit.
func (p *parser) limit(r *rule, n *yaml.Node, path string) {
	unitText := ""
	lines := p.Mapping(path, n, fields{
		"requests_per_unit": func(path string, n *yaml.Node) { r.rate = p.number(n, path, 0) },
		"unit":              func(path string, n *yaml.Node) { unitText = p.text(n, path) },
		"interval":          func(path string, n *yaml.Node) { r.interval = p.Time(path, n) },
		"algorithm":         func(path string, n *yaml.Node) { r.algorithm = p.oneOf(n, path, algorithms) },
		"burst":             func(path string, n *yaml.Node) { r.burst = p.number(n, path, 1) },
		"charge":            func(path string, n *yaml.Node) { r.charge = p.flag(n, path) },
		"unlimited":         func(path string, n *yaml.Node) { r.unlimited = p.flag(n, path) },
		"name":              func(path string, n *yaml.Node) { r.label = p.text(n, path) },
		"replaces": func(path string, n *yaml.Node) {
			for i, entry := range p.list(n, path) {
				r.replaces = append(r.replaces, p.replaced(entry, fmt.Sprintf("%s[%d]", path, i)))
			}
		},
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	i := slices.IndexFunc(units, func(u unit) bool { return strings.EqualFold(u.name, unitText) })
	switch {
	case r.unlimited && (i >= 0 || lines["interval"] > 0):
		p.wrong(n, path+".unit", "must be missing where unlimited is true")
	case r.unlimited:
	case lines["interval"] > 0 && lines["unit"] > 0:
		p.Wrong(lines["interval"], path+".interval", "and unit are both set, must be one of them")
	case lines["interval"] == 0 && i < 0:
		p.Wrong(cmp.Or(lines["unit"], n.Line), path+".unit",
			"is %q, must be second, minute, hour, day, week, month or year, or be replaced by interval",
			unitText)
	case i >= 0:
		r.interval = units[i].length
		r.unit = r.period(units[i], lines["algorithm"] > 0)
	}
	for _, name := range r.replaces {
		if name != "" && name == r.label {
			p.Wrong(lines["replaces"], path+".replaces", "has %q, the name of the limit itself", name)
		}
	}
	p.sense(r, lines, path)
	r.show()
}

// sense reports keys that contradict each other.
func (p *parser) sense(r *rule, lines map[string]int, path string) {
	if line := lines["burst"]; line > 0 && r.algorithm != gcra && r.algorithm != tokenBucket {
		p.Wrong(line, path+".burst", "is set, must be with the algorithm %s or %s", gcra, tokenBucket)
	}
	if line := lines["charge"]; line > 0 && r.charge && r.algorithm == concurrent {
		p.Wrong(line, path+".charge", "is true, must be false with %s, which has no debts", concurrent)
	}
	r.charge = r.charge && r.algorithm != concurrent
	if r.domain.allOrNone && r.algorithm != exact {
		p.Wrong(lines["algorithm"], path+".algorithm", "is %s, must be %s in a domain with all_or_none",
			r.algorithm, exact)
	}
}

func (p *parser) replaced(n *yaml.Node, path string) (name string) {
	p.Mapping(path, n, fields{"name": func(path string, n *yaml.Node) { name = p.text(n, path) }})
	if name == "" && n.Kind == yaml.MappingNode {
		p.wrong(n, path+".name", "is missing or empty, must be the name of a limit")
	}
	return name
}

// metadata reads what a response carries, which may be anything that JSON can hold.
func (p *parser) metadata(n *yaml.Node, path string) *structpb.Struct {
	if n == nil || n.Tag == "!!null" {
		return nil
	}
	var all map[string]any
	if err := n.Decode(&all); err != nil {
		p.wrong(n, path, "is unusable: %v", err)
		return nil
	}
	s, err := structpb.NewStruct(all)
	if err == nil {
		_, err = protojson.Marshal(s) // which refuses infinity
	}
	if err != nil {
		p.wrong(n, path, "is unusable: %v", err)
	}
	p.exact(n, path)
	return s
}

// exact reports whole numbers that a response could not hold, because JSON has only floating-point numbers.
func (p *parser) exact(n *yaml.Node, path string) {
	for _, below := range n.Content {
		p.exact(below, path)
	}
	var whole int64
	digits := strings.TrimLeft(n.Value, "+-0123456789") == "" && n.Tag == "!!float" // too many for an int
	if digits || n.Tag == "!!int" && (n.Decode(&whole) != nil || max(whole, -whole) > 1<<53) {
		p.wrong(n, path, "has the number %s, must be within 2^53: JSON would round it", n.Value)
	}
}

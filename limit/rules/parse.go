package rules

import (
	"cmp"
	"crypto/sha256"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/yamlfile"
)

// The bounds of a file.
const (
	mostBytes    = 1 << 20
	mostRules    = 500
	mostEach     = 16 // limits of a rule, methods and the like
	mostSegments = 32 // of a route
)

// Parse reads a file of rules, YAML or JSON (without its escape \/ and surrogate pairs such as
// \ud83d\ude00), of at most 1 MiB and 500 rules. docs/rules.md describes the format. YAML aliases are not
// allowed.
//
// The error joins all mistakes, the first 100 of a file, in the order of their lines: "line 12: rate is -1,
// must be 1 to 2^40". For a file that is not YAML, that is the only mistake, without a line if the file is
// larger than 64 KiB. Each mistake is a limit.ErrInvalidArgument. After any mistake the Set is nil.
func Parse(data []byte) (*Set, error) {
	p := parser{set: &Set{routes: newRoutes(), sum: sumOf(data)}}
	if len(data) > mostBytes {
		p.wrong(1, "the file has %d bytes, must have at most %d", len(data), mostBytes)
	} else if root := p.document(data); root != nil {
		if lines := p.Mapping("", root, fields{"rules": p.rules}); len(lines) == 0 && p.Found == 0 {
			p.wrong(root.Line, "rules is missing")
		}
	}
	p.route()
	if err := p.err(); err != nil {
		return nil, err
	}
	return p.set, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// A parser makes a Set from the nodes of a file.
type parser struct {
	reader
	set *Set
}

func (p *parser) rules(what string, n *yaml.Node) {
	entries := p.List(what, n)
	if len(entries) > mostRules {
		p.wrong(n.Line, "%s has %d entries, must have at most %d", what, len(entries), mostRules)
		return
	}
	lines := make(map[string]int)
	for _, entry := range entries {
		r := p.rule(entry)
		if before := lines[r.name]; before > 0 {
			p.wrong(r.line, "rule %s already exists, in line %d", r.name, before)
			r.vague = true // one of them was meant to have another name
		} else if r.name != "" {
			lines[r.name] = r.line
		}
		r.index = len(p.set.rules)
		p.set.rules = append(p.set.rules, r)
	}
}

// rule reads a rule.
func (p *parser) rule(n *yaml.Node) *rule {
	r := &rule{line: n.Line, route: "/", cost: 1}
	var limits *yaml.Node
	before, beside := p.Found, 0
	// apart reads fields that do not say which calls a rule is for.
	apart := func(read func(what string, n *yaml.Node)) func(string, *yaml.Node) {
		return func(what string, n *yaml.Node) {
			start := p.Found
			read(what, n)
			beside += p.Found - start
		}
	}
	lines := p.Mapping("a rule", n, fields{
		"name":  apart(func(what string, n *yaml.Node) { r.name = p.name(what, n) }),
		"match": func(what string, n *yaml.Node) { p.match(r, what, n) },
		"by":    apart(func(what string, n *yaml.Node) { r.by = p.by(what, n) }),
		"cost": apart(func(what string, n *yaml.Node) {
			r.cost = p.number(what, n, form.MostPermits)
		}),
		"settle": apart(func(what string, n *yaml.Node) { r.settle = p.flag(what, n) }),
		"also":   func(what string, n *yaml.Node) { r.also = p.flag(what, n) },
		"exempt": func(what string, n *yaml.Node) { r.exempt = p.flag(what, n) },
		"limits": func(_ string, n *yaml.Node) { limits = n },
	})
	r.vague = p.Found > before+beside
	if lines["name"] == 0 && n.Kind == yaml.MappingNode {
		p.wrong(n.Line, "a rule has no name")
	}
	switch {
	case n.Kind != yaml.MappingNode:
	case !r.exempt && limits == nil:
		p.wrong(n.Line, "%s has neither limits nor exempt: true", r)
	case r.exempt:
		for _, other := range []string{"limits", "by", "cost", "settle"} {
			if lines[other] > 0 {
				p.wrong(lines[other], "%s is not for a rule that is exempt", other)
			}
		}
	default:
		p.limits(r, limits)
	}
	p.sense(r, lines)
	return r
}

// sense reports rules that make no sense.
func (p *parser) sense(r *rule, lines map[string]int) {
	if r.also && r.exempt && r.route == "/" && r.free() && !r.vague {
		p.wrong(lines["also"], "%s exempts all calls from all rules, must have a match", r)
	}
	for _, s := range r.by {
		lacking := s.kind == "user" && r.user == absent
		for _, h := range r.headers {
			lacking = lacking || s == source{"header", h.name} && h.presence == absent
		}
		if lacking {
			p.wrong(lines["by"], "%s is by %s, and matches only calls without it", r, s)
		}
	}
}

// Names appear in header fields and in keys of Redis. Two names fill the 64 bytes of the name of a policy.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,31}$`)

func (p *parser) name(what string, n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && !nameForm.MatchString(n.Value) {
		p.wrong(n.Line, "%s is %s, must have 1 to 31 of A-Z a-z 0-9 _ . -", what, yamlfile.Described(n))
		return n.Value
	}
	text, _ := p.text(what, n)
	return text
}

// match reads which calls a rule is for.
func (p *parser) match(r *rule, what string, n *yaml.Node) {
	lines := p.Mapping(what, n, fields{
		"route":   func(what string, n *yaml.Node) { r.route, r.at = p.pattern(what, n), n.Line },
		"methods": func(what string, n *yaml.Node) { r.methods = p.methods(what, n) },
		"headers": func(what string, n *yaml.Node) { r.headers = p.headers(what, n) },
		"user":    func(what string, n *yaml.Node) { r.user = p.presence(what, n) },
	})
	if len(r.methods) > 0 && strings.Contains(r.route, " ") {
		p.wrong(lines["methods"], "methods are given, and the route has a method: %q", r.route)
	}
}

// pattern reads a route. A mux finds all other mistakes in it later.
func (p *parser) pattern(what string, n *yaml.Node) string {
	text, ok := p.text(what, n)
	words := strings.Fields(text)
	if ok && (len(words) == 0 || len(words) > 2 || words[len(words)-1][0] != '/') {
		const format = `%s is %s, must be a path such as "/a/{b}", or a method and a path`
		p.wrong(n.Line, format, what, yamlfile.Quoted(n))
	} else if ok {
		p.path(what, n, words[len(words)-1])
	}
	if len(words) == 2 && !methodForm.MatchString(words[0]) {
		p.wrong(n.Line, "the method of a route is %.60q, must be in capital letters", words[0])
	}
	return strings.Join(words, " ")
}

// path reports valid paths that would not match what their author meant.
func (p *parser) path(what string, n *yaml.Node, path string) {
	switch {
	case strings.Count(path, "/") > mostSegments:
		p.wrong(n.Line, "%s has %d parts, must have at most %d", what, strings.Count(path, "/"), mostSegments)
	case strings.Contains(path, "?"):
		p.wrong(n.Line, "%s is %s, must not have a ?: no rule goes by a query", what, yamlfile.Quoted(n))
	case strings.Contains(path, "*"):
		const format = "%s is %s, must not have a *: write {name} for a part, {name...} for the rest"
		p.wrong(n.Line, format, what, yamlfile.Quoted(n))
	case strings.Contains(path, "/:"):
		const format = "%s is %s, must not have a part that begins with a colon: write {name}"
		p.wrong(n.Line, format, what, yamlfile.Quoted(n))
	}
}

// A method of HTTP may have any name, such as PURGE or M-SEARCH.
var methodForm = regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,30}$`)

func (p *parser) methods(what string, n *yaml.Node) (methods []string) {
	for _, entry := range p.some(what, n) {
		text, ok := p.text("a method", entry)
		if ok && !methodForm.MatchString(text) {
			p.wrong(entry.Line, "a method is %s, must be in capital letters", yamlfile.Quoted(entry))
		}
		methods = append(methods, text)
	}
	return methods
}

// some returns the entries of a list, 1 to 16.
func (p *parser) some(what string, n *yaml.Node) []*yaml.Node {
	entries := p.List(what, n)
	if count := len(entries); n.Kind == yaml.SequenceNode && (count < 1 || count > mostEach) {
		p.wrong(n.Line, "%s has %d entries, must have 1 to %d", what, count, mostEach)
		return nil
	}
	return entries
}

func (p *parser) presence(what string, n *yaml.Node) presence {
	if p.flag(what, n) {
		return present
	}
	return absent
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// headers reads the conditions of header fields: true or false for their presence, anything else for their
// value.
func (p *parser) headers(what string, n *yaml.Node) (all []condition) {
	if n.Kind != yaml.MappingNode {
		p.wrong(n.Line, "%s is %s, must be a mapping of header fields", what, yamlfile.Described(n))
		return nil
	}
	if count := len(n.Content) / 2; count < 1 || count > mostEach {
		p.wrong(n.Line, "%s has %d entries, must have 1 to %d", what, count, mostEach)
		return nil
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		c := condition{name: p.header(name)}
		switch {
		case lines[c.name] > 0:
			p.wrong(name.Line, "header field %s appears twice, first in line %d", c.name, lines[c.name])
		case value.Kind == yaml.ScalarNode && value.Tag == "!!bool":
			c.presence = p.presence(c.name, value)
		default:
			c.value, _ = p.text(c.name, value)
		}
		lines[c.name] = name.Line
		all = append(all, c)
	}
	return all
}

// header returns the canonical name of a header field.
func (p *parser) header(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || !headerForm.MatchString(n.Value) {
		p.wrong(n.Line, "a header field is %s, must have 1 to 64 of A-Z a-z 0-9 -", yamlfile.Quoted(n))
	}
	return http.CanonicalHeaderKey(n.Value)
}

// by reads the sources of a rule: one or a list.
func (p *parser) by(what string, n *yaml.Node) (all []source) {
	entries := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		entries = p.some(what, n)
	}
	for _, entry := range entries {
		text, ok := p.text(what, entry)
		if !ok {
			continue
		}
		s := source{kind: text}
		if header, is := strings.CutPrefix(text, "header "); is && headerForm.MatchString(header) {
			s = source{"header", http.CanonicalHeaderKey(header)}
		} else if text != "user" && text != "address" && text != "route" {
			const format = "%s is %s, must be user, address, route or header NAME"
			p.wrong(entry.Line, format, what, yamlfile.Quoted(entry))
		}
		if ok && slices.Contains(all, s) {
			p.wrong(entry.Line, "%s appears twice", s)
		}
		all = append(all, s)
	}
	return all
}

// route makes the routes of all rules, except of vague ones: no mistake follows from the calls of those.
func (p *parser) route() {
	byPattern := make(map[string]*route)
	var all []*route
	for _, r := range p.set.rules {
		if r.vague {
			continue
		}
		there := byPattern[r.route] != nil
		if err := p.set.routes.add(r, byPattern); err != nil {
			p.wrong(cmp.Or(r.at, r.line), "%v", err)
		} else if !there {
			all = append(all, byPattern[r.route])
		}
	}
	if p.Found == 0 {
		p.set.routes.link(all)
	}
}

// document returns the root of the only document of a file, or nil after a mistake.
func (p *parser) document(data []byte) *yaml.Node {
	documents, err := yamlfile.Decode(data)
	switch {
	case err != nil:
		line, reason := yamlfile.Locate(data, err)
		p.Wrong(line, "", "%s", reason)
	case len(documents) == 0:
		p.wrong(1, "the file is empty, must have rules")
	case len(documents) > 1:
		p.wrong(documents[1].Line, "a second document begins, must be one")
	default:
		return documents[0].Content[0]
	}
	return nil
}

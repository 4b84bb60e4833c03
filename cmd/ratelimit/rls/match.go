package rls

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// A match is the rule for a descriptor of a request. Without a rule there is no limit.
type match struct {
	rule   *rule
	key    string // of the counter
	metric string // the path of the metrics: that of the rule, or one with values of the request
}

// match returns the rule for a descriptor. Its path of keys and values leads to a descriptor of the file
// at exactly that depth; at each step an exact value takes precedence over patterns, and a pattern over
// the key alone.
func (d *domain) match(in *descriptor.RateLimitDescriptor) (match, error) {
	entries := in.GetEntries()
	if in.GetLimit() != nil {
		return d.override(in)
	}
	n := &d.root
	var room [8]*node
	path := room[:0]
	for _, e := range entries {
		if n = n.step(e.GetKey(), e.GetValue()); n == nil {
			return match{}, nil
		}
		path = append(path, n)
	}
	if n.rule == nil {
		return match{}, nil
	}
	m := match{rule: n.rule, metric: n.rule.path}
	m.key = counterKey(entries, path)
	if n.rule.dynamic {
		m.metric = metricPath(d.name, entries, path, n.rule.detailed)
	}
	return m, nil
}

// step returns the child for an entry, nil if there is none.
func (n *node) step(key, value string) *node {
	if value != "" {
		if child := n.next[pair{key, value}]; child != nil && child.parts == nil {
			return child
		}
	}
	for _, child := range n.patterns {
		if child.key == key && like(child.parts, value) {
			return child
		}
	}
	return n.next[pair{key, ""}]
}

// like reports whether a value has the parts of a pattern, in order, with anything between them.
func like(parts []string, value string) bool {
	last := len(parts) - 1
	value, ok := strings.CutPrefix(value, parts[0])
	if !ok {
		return false
	}
	if value, ok = strings.CutSuffix(value, parts[last]); !ok {
		return false
	}
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(value, part)
		if !found {
			return false
		}
		value = after
	}
	return true
}

// override returns the rule that a request brings with it. It replaces whatever the file has.
func (d *domain) override(in *descriptor.RateLimitDescriptor) (match, error) {
	number := pb.RateLimitResponse_RateLimit_Unit(in.GetLimit().GetUnit())
	for _, u := range units {
		if u.number == number {
			r := &rule{
				rate: int64(in.GetLimit().GetRequestsPerUnit()), interval: u.length, algorithm: exact,
				charge: true, fallback: d.fallback, domain: d, dynamic: true,
			}
			r.show()
			r.path = metricPath(d.name, in.GetEntries(), nil, true)
			return match{rule: r, key: counterKey(in.GetEntries(), nil), metric: r.path}, nil
		}
	}
	return match{}, badRequest(fmt.Sprintf("the limit of a descriptor has the unit %d, must have a known one",
		number))
}

// maxKey is the most bytes in the key of a counter.
const maxKey = 1024

// counterKey returns the key of the counter for the entries of a request: "path=/a|user=bob". Characters
// that would make it ambiguous are escaped. A key that is too long becomes a hash, which has no "=".
func counterKey(entries []*descriptor.RateLimitDescriptor_Entry, path []*node) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('|')
		}
		value := e.GetValue()
		if path != nil && path[i].shareThreshold {
			value = path[i].value
		}
		escape(&b, e.GetKey())
		b.WriteByte('=')
		escape(&b, value)
	}
	if b.Len() > maxKey {
		sum := sha256.Sum256([]byte(b.String()))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// escape writes a text without the characters that separate entries, and without braces, which
// determine a key's slot.
func escape(b *strings.Builder, text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c == 0x7f || strings.IndexByte("%|={}", c) >= 0:
			fmt.Fprintf(b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
}

// metricPath returns the path of the metrics for the entries of a request: with their values if the rule
// is detailed, otherwise where a descriptor has value_to_metric. A shared pattern takes precedence over
// the value.
func metricPath(
	domain string, entries []*descriptor.RateLimitDescriptor_Entry, path []*node, detailed bool,
) string {
	var b strings.Builder
	b.WriteString(domain)
	for i, e := range entries {
		value := e.GetValue()
		switch {
		case path == nil:
		case path[i].shareThreshold:
			value = path[i].value
		case !detailed && !path[i].valueToMetric:
			value = path[i].value
		}
		b.WriteByte('.')
		b.WriteString(e.GetKey())
		if value != "" {
			b.WriteByte('_')
			b.WriteString(value)
		}
	}
	return b.String()
}

func escaped(text string) string {
	var b strings.Builder
	escape(&b, text)
	return b.String()
}

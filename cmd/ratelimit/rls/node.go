package rls

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A reader reads the nodes of a YAML file, and collects mistakes.
type reader struct {
	file     string
	mistakes []error
	visited  int
	most     int // of visited
}

// fields are the keys that a mapping may have, with the functions that read their values.
type fields map[string]func(n *yaml.Node, path string)

// mostMistakes is how many mistakes of a file are reported.
const mostMistakes = 100

func (r *reader) wrong(n *yaml.Node, path, format string, args ...any) {
	switch {
	case r.visited > r.most || len(r.mistakes) > mostMistakes:
		return // what was not read looks as if it were missing
	case len(r.mistakes) == mostMistakes:
		path, format, args = "", "there are more mistakes from here on", nil
		defer func() { r.visited = r.most + 1 }() // the rest is not read
	}
	r.mistakes = append(r.mistakes, &Mistake{r.file, n.Line, path, fmt.Sprintf(format, args...)})
}

// at returns the first node that is there.
func at(nodes ...*yaml.Node) *yaml.Node {
	i := slices.IndexFunc(nodes, func(n *yaml.Node) bool { return n != nil })
	return nodes[i]
}

// mostNodes bounds the nodes of a small file, which aliases could expand without end. A large file may have
// one node for each byte, more than it has without aliases.
const mostNodes = 100_000

// resolve returns the node that an alias stands for.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.visited++; r.visited == r.most {
		r.wrong(n, "", "the file has more than %d nodes", r.most)
	}
	return n
}

// mapping reads the values of a mapping in order, and returns them. Keys of a merged mapping (<<)
// follow those of the mapping itself.
func (r *reader) mapping(n *yaml.Node, path string, read fields) map[string]*yaml.Node {
	n = r.resolve(n)
	there := make(map[string]*yaml.Node)
	if r.visited > r.most {
		return there
	}
	if n.Kind != yaml.MappingNode {
		r.wrong(n, path, "is %s, must be a mapping", described(n))
		return there
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], r.resolve(n.Content[i+1])
		where := strings.TrimPrefix(path+"."+key.Value, ".")
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case key.Tag != "!!str":
			r.wrong(key, where, "is the key of a mapping, must be text")
		case there[key.Value] != nil:
			r.wrong(key, where, "is there twice, first in line %d", there[key.Value].Line)
		case read[key.Value] == nil:
			r.wrong(key, where, "is unknown here")
		default:
			there[key.Value] = value
			read[key.Value](value, where)
		}
	}
	for _, m := range merged {
		others := make(fields)
		for key, f := range read {
			others[key] = f
			if there[key] != nil {
				others[key] = func(*yaml.Node, string) {}
			}
		}
		for key, value := range r.mapping(m, path, others) {
			if there[key] == nil {
				there[key] = value
			}
		}
	}
	return there
}

// list returns the entries of a list; none if it is missing or empty.
func (r *reader) list(n *yaml.Node, path string) []*yaml.Node {
	if n == nil || n.Tag == "!!null" || r.visited > r.most {
		return nil
	}
	if n = r.resolve(n); n.Kind != yaml.SequenceNode {
		r.wrong(n, path, "is %s, must be a list", described(n))
		return nil
	}
	entries := make([]*yaml.Node, len(n.Content))
	for i, entry := range n.Content {
		entries[i] = r.resolve(entry)
	}
	return entries
}

// text reads a text; empty if the key has no value.
func (r *reader) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode {
		r.wrong(n, path, "is %s, must be text", described(n))
		return ""
	}
	if n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func (r *reader) flag(n *yaml.Node, path string) (b bool) {
	if n.Decode(&b) != nil {
		r.wrong(n, path, "is %s, must be true or false", described(n))
	}
	return b
}

func (r *reader) number(n *yaml.Node, path string, least int64) int64 {
	var number float64                                       // package yaml would truncate to an integer
	const digits = 15                                        // that a float64 keeps
	tiny := strings.Contains(strings.ToLower(n.Value), "e-") // an exponent that may make it 0
	if n.Tag != "!!null" && n.Decode(&number) != nil || number != math.Trunc(number) ||
		len(n.Value) > digits || tiny ||
		number < float64(least) || number > math.MaxUint32 {
		r.wrong(n, path, "is %s, must be a whole number from %d to %d", described(n), least,
			uint32(math.MaxUint32))
		return least
	}
	return int64(number)
}

func (r *reader) duration(n *yaml.Node, path string) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < shortest || d > longest || d%time.Millisecond != 0 {
		r.wrong(n, path, "is %s, must be a time such as 5m, in whole ms, from %v to 3660 days (%v)",
			described(n), shortest, longest)
		return time.Second
	}
	return d
}

func (r *reader) oneOf(n *yaml.Node, path string, allowed []string) string {
	if n.Kind != yaml.ScalarNode || !slices.Contains(allowed, n.Value) {
		r.wrong(n, path, "is %s, must be one of %s", described(n), strings.Join(allowed, ", "))
		return allowed[0]
	}
	return n.Value
}

// described describes a node for a mistake.
func described(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return fmt.Sprintf("%.60q", n.Value)
}

package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
)

// mostMistakes bounds the reported mistakes.
const mostMistakes = 100

// A mistake is a mistake in a file.
type mistake struct {
	line int // 0 if unknown
	text string
}

func (m mistake) Error() string {
	if m.line == 0 {
		return m.text
	}
	return fmt.Sprintf("line %d: %s", m.line, m.text)
}

// Unwrap makes every mistake a limit.ErrInvalidArgument.
func (m mistake) Unwrap() error { return limit.ErrInvalidArgument }

// A reader reads the nodes of a file and collects the mistakes. Values read with a mistake are not used.
type reader struct {
	found    int       // the number of mistakes
	mistakes []mistake // the first ones
}

// wrong adds a mistake. An unknown line becomes the first.
func (r *reader) wrong(line int, format string, args ...any) {
	r.note(max(1, line), format, args...)
}

// note adds a mistake, up to a bound: a file may have one for each character.
func (r *reader) note(line int, format string, args ...any) {
	if r.found++; r.found <= mostMistakes {
		r.mistakes = append(r.mistakes, mistake{line, fmt.Sprintf(format, args...)})
	}
}

// err returns the mistakes in the order of their lines, or nil.
func (r *reader) err() error {
	slices.SortStableFunc(r.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, m := range r.mistakes {
		all = append(all, m)
	}
	return errors.Join(all...)
}

// A field is an allowed field of a mapping.
type field struct {
	name string
	read func(what string, value *yaml.Node)
}

// mapping reads a mapping, and returns the lines of its fields. what names it.
func (r *reader) mapping(what string, n *yaml.Node, fields ...field) (lines map[string]int) {
	lines = make(map[string]int, len(fields))
	if n.Kind != yaml.MappingNode {
		r.wrong(n.Line, "%s is %s, must have fields", what, kind(n))
		return lines
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(f field) bool {
			return name.Kind == yaml.ScalarNode && f.name == name.Value
		})
		switch before := lines[name.Value]; {
		case at < 0 && r.found >= mostMistakes:
			r.found++ // without its text, which takes most of the time
		case at < 0:
			r.wrong(name.Line, "%s has no field %s; it has %s", what, quoted(name), names(fields))
		case before > 0:
			r.wrong(name.Line, "%s appears twice, first in line %d", name.Value, before)
		default:
			lines[name.Value] = name.Line
			fields[at].read(name.Value, value)
		}
	}
	return lines
}

func names(fields []field) string {
	var b strings.Builder
	for i, f := range fields {
		switch {
		case i == 0:
		case i == len(fields)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(f.name)
	}
	return b.String()
}

// kind describes a node.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which is not allowed here"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	return quoted(n)
}

// quoted returns the text of a node, shortened.
func quoted(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kind(n)
	}
	return fmt.Sprintf("%.60q", n.Value)
}

// list returns the entries of a list.
func (r *reader) list(what string, n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		r.wrong(n.Line, "%s is %s, must be a list", what, kind(n))
		return nil
	}
	return n.Content
}

// text returns a text, which must not be empty.
func (r *reader) text(what string, n *yaml.Node) (text string, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		r.wrong(n.Line, "%s is %s, must be a text", what, kind(n))
		return "", false
	}
	return n.Value, true
}

// number returns a whole number from 1 to upper.
func (r *reader) number(what string, n *yaml.Node, upper int64) int64 {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil && !errors.Is(err, strconv.ErrRange):
		r.wrong(n.Line, "%s is %s, must be a whole number", what, kind(n))
	case i < 1 || i > upper:
		most := strconv.FormatInt(upper, 10)
		if upper == form.MostPermits {
			most = "2^40"
		}
		r.wrong(n.Line, "%s is %.60s, must be 1 to %s", what, n.Value, most)
	}
	return i
}

// flag returns true or false.
func (r *reader) flag(what string, n *yaml.Node) bool {
	flag, err := strconv.ParseBool(strings.ToLower(n.Value))
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || err != nil {
		r.wrong(n.Line, "%s is %s, must be true or false", what, kind(n))
	}
	return flag
}

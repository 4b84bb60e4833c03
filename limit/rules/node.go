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

// mostMistakes is how many are reported at most: nobody reads more.
const mostMistakes = 100

// A mistake is one in a file.
type mistake struct {
	line int // 0 if it is not known
	text string
}

func (m mistake) Error() string {
	if m.line == 0 {
		return m.text
	}
	return fmt.Sprintf("line %d: %s", m.line, m.text)
}

// Unwrap has errors.Is find the error that all mistakes are.
func (m mistake) Unwrap() error { return limit.ErrInvalidArgument }

// A reader reads the nodes of a file and notes what is wrong. What it returns after a
// mistake is not used.
type reader struct {
	found    int       // mistakes
	mistakes []mistake // the first of them
}

// wrong notes a mistake. A line that is not known is the first one.
func (r *reader) wrong(line int, format string, args ...any) {
	r.note(max(1, line), format, args...)
}

// note notes a mistake, unless there are enough. A file may have as many as letters.
func (r *reader) note(line int, format string, args ...any) {
	if r.found++; r.found <= mostMistakes {
		r.mistakes = append(r.mistakes, mistake{line, fmt.Sprintf(format, args...)})
	}
}

// err returns the mistakes by their lines, nil if there are none.
func (r *reader) err() error {
	slices.SortStableFunc(r.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, m := range r.mistakes {
		all = append(all, m)
	}
	return errors.Join(all...)
}

// A field is one that a mapping may have.
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
			r.found++ // without its text, which takes longer than all else
		case at < 0:
			r.wrong(name.Line, "%s has no field %s; it has %s", what, quoted(name), names(fields))
		case before > 0:
			r.wrong(name.Line, "%s is there twice, first in line %d", name.Value, before)
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

// kind returns what a node is, in words.
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

// quoted returns the text of a node, not too long.
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

// text returns a text that is not empty.
func (r *reader) text(what string, n *yaml.Node) (text string, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		r.wrong(n.Line, "%s is %s, must be a text", what, kind(n))
		return "", false
	}
	return n.Value, true
}

// number returns a whole number, at least 1.
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

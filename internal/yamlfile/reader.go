package yamlfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/internal/form"
)

// A Mistake is a mistake in a file. Key, if it is not empty, names what Text is about.
type Mistake struct {
	Line      int // 0 if unknown
	Key, Text string
}

// A Reader reads the nodes of a file, and collects the mistakes. Values read with a mistake are not used.
type Reader struct {
	Mistakes []Mistake // the first 100, and one that says that there are more
	Found    int       // number of mistakes

	// Paths makes the key of a field the key of its mapping, a dot and its name. Otherwise it is the name.
	Paths bool
	// Aliases allows aliases, and mappings that are merged by <<.
	Aliases bool
	// Most bounds the nodes, because aliases could expand without end. 0 is no bound.
	Most    int
	visited int
	ended   bool
}

// mostMistakes is how many mistakes of a file are reported. A file may have one for each character.
const mostMistakes = 100

// Wrong notes a mistake. When there are too many, the rest of the file is not read.
func (r *Reader) Wrong(line int, key, format string, args ...any) {
	if r.ended {
		return // fields that were not read would be reported as missing
	}
	if r.Found++; r.Found > mostMistakes {
		key, format, args, r.ended = "", "there are more mistakes from here on", nil, true
	}
	r.Mistakes = append(r.Mistakes, Mistake{line, key, fmt.Sprintf(format, args...)})
}

// Ended reports whether the rest of the file is not read.
func (r *Reader) Ended() bool { return r.ended }

// resolve returns the node that an alias stands for.
func (r *Reader) resolve(n *yaml.Node) *yaml.Node {
	for r.Aliases && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.visited++; r.Most > 0 && r.visited > r.Most {
		r.Wrong(n.Line, "", "the file has more than %d nodes", r.Most)
		r.ended = true
	}
	return n
}

// Fields are the fields that a mapping may have, with the functions that read their values.
type Fields map[string]func(key string, value *yaml.Node)

func (f Fields) String() string {
	names := slices.Sorted(maps.Keys(f))
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Mapping reads a mapping, and returns the lines of its fields. An empty key stands for the file.
func (r *Reader) Mapping(key string, n *yaml.Node, fields Fields) (lines map[string]int) {
	lines = make(map[string]int, len(fields))
	whole := ""
	if key == "" {
		whole = "the file "
	}
	if n = r.resolve(n); n.Kind != yaml.MappingNode {
		r.Wrong(n.Line, key, whole+"is %s, must have fields", Described(n))
		return lines
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content) && !r.ended; i += 2 {
		name, value := n.Content[i], r.resolve(n.Content[i+1])
		where := name.Value
		if r.Paths {
			where = strings.TrimPrefix(key+"."+where, ".")
		}
		read := fields[name.Value]
		switch before := lines[name.Value]; {
		case r.Aliases && name.Tag == "!!merge":
			merged = append(merged, value)
		case name.Kind != yaml.ScalarNode || read == nil:
			r.Wrong(name.Line, key, whole+"has no field %s; it has %s", Quoted(name), fields)
		case before > 0:
			r.Wrong(name.Line, where, "appears twice, first in line %d", before)
		default:
			lines[name.Value] = name.Line
			read(where, value)
		}
	}
	for _, m := range merged {
		r.merge(key, m, fields, lines)
	}
	return lines
}

// merge reads a merged mapping, whose fields follow those of the mapping itself, and adds their lines.
func (r *Reader) merge(key string, n *yaml.Node, fields Fields, lines map[string]int) {
	others := maps.Clone(fields)
	for name := range lines {
		others[name] = func(string, *yaml.Node) {}
	}
	for name, line := range r.Mapping(key, n, others) {
		if lines[name] == 0 {
			lines[name] = line
		}
	}
}

// List returns the entries of a list.
func (r *Reader) List(key string, n *yaml.Node) (entries []*yaml.Node) {
	if n = r.resolve(n); n.Kind != yaml.SequenceNode {
		r.Wrong(n.Line, key, "is %s, must be a list", Described(n))
		return nil
	}
	entries = make([]*yaml.Node, len(n.Content))
	for i, entry := range n.Content {
		entries[i] = r.resolve(entry)
	}
	return entries
}

// Time returns a time such as 1m30s.
func (r *Reader) Time(key string, n *yaml.Node) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < time.Millisecond || d > form.MostTime ||
		d%time.Millisecond != 0 {
		r.Wrong(n.Line, key, "is %s, must be a time such as 30s, 1m or 24h, from 1ms to %v in whole ms",
			Described(n), form.MostTime)
		return time.Second
	}
	return d
}

// Described describes a node for a mistake.
func Described(n *yaml.Node) string {
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
	return Quoted(n)
}

// Quoted returns the text of a node, shortened.
func Quoted(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return Described(n)
	}
	return fmt.Sprintf("%.60q", n.Value)
}

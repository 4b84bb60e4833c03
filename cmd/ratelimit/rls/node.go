package rls

import (
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/internal/yamlfile"
)

// A reader reads the nodes of a YAML file, and collects mistakes.
type reader struct{ yamlfile.Reader }

// fields are the keys that a mapping may have, with the functions that read their values.
type fields = yamlfile.Fields

func (r *reader) wrong(n *yaml.Node, path, format string, args ...any) {
	r.Wrong(n.Line, path, format, args...)
}

// mostNodes bounds the nodes of a small file, which aliases could expand without end. A large file may have
// one node for each byte, more than it has without aliases.
const mostNodes = 100_000

// list returns the entries of a list; none if it is missing or empty.
func (r *reader) list(n *yaml.Node, path string) []*yaml.Node {
	if n == nil || n.Tag == "!!null" || r.Ended() {
		return nil
	}
	return r.List(path, n)
}

// text reads a text; empty if the key has no value.
func (r *reader) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode {
		r.wrong(n, path, "is %s, must be text", yamlfile.Described(n))
		return ""
	}
	if n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func (r *reader) flag(n *yaml.Node, path string) (b bool) {
	if n.Decode(&b) != nil {
		r.wrong(n, path, "is %s, must be true or false", yamlfile.Described(n))
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
		r.wrong(n, path, "is %s, must be a whole number from %d to %d", yamlfile.Described(n), least,
			uint32(math.MaxUint32))
		return least
	}
	return int64(number)
}

func (r *reader) oneOf(n *yaml.Node, path string, allowed []string) string {
	if n.Kind != yaml.ScalarNode || !slices.Contains(allowed, n.Value) {
		r.wrong(n, path, "is %s, must be one of %s", yamlfile.Described(n), strings.Join(allowed, ", "))
		return allowed[0]
	}
	return n.Value
}

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
	"github.com/redisson-go/rratelimiter/internal/yamlfile"
	"github.com/redisson-go/rratelimiter/limit"
)

// A mistake is a mistake in a file.
type mistake yamlfile.Mistake

func (m mistake) Error() string {
	text := strings.TrimPrefix(m.Key+" "+m.Text, " ")
	if m.Line == 0 {
		return text
	}
	return fmt.Sprintf("line %d: %s", m.Line, text)
}

// Unwrap makes every mistake a limit.ErrInvalidArgument.
func (m mistake) Unwrap() error { return limit.ErrInvalidArgument }

// A reader is a yamlfile.Reader.
type reader struct{ yamlfile.Reader }

// fields are the fields of a mapping.
type fields = yamlfile.Fields

// wrong adds a mistake. An unknown line becomes the first.
func (r *reader) wrong(line int, format string, args ...any) {
	r.Wrong(max(1, line), "", format, args...)
}

// err returns the mistakes in the order of their lines, or nil.
func (r *reader) err() error {
	slices.SortStableFunc(r.Mistakes, func(a, b yamlfile.Mistake) int { return cmp.Compare(a.Line, b.Line) })
	var all []error
	for _, m := range r.Mistakes {
		all = append(all, mistake(m))
	}
	return errors.Join(all...)
}

// text returns a text, which must not be empty.
func (r *reader) text(what string, n *yaml.Node) (text string, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		r.wrong(n.Line, "%s is %s, must be a text", what, yamlfile.Described(n))
		return "", false
	}
	return n.Value, true
}

// number returns a whole number from 1 to upper.
func (r *reader) number(what string, n *yaml.Node, upper int64) int64 {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil && !errors.Is(err, strconv.ErrRange):
		r.wrong(n.Line, "%s is %s, must be a whole number", what, yamlfile.Described(n))
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
		r.wrong(n.Line, "%s is %s, must be true or false", what, yamlfile.Described(n))
	}
	return flag
}

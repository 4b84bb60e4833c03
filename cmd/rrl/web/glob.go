package web

import (
	"fmt"
	"regexp"
	"strings"
)

// The bounds of a viewer's pattern. Old Redis releases take very long to match many stars.
const (
	longestPattern = 200
	mostStars      = 4
)

// checkPattern returns an error if a viewer's pattern is refused.
func checkPattern(pattern string) error {
	if n := len(pattern); n > longestPattern {
		return fmt.Errorf("the pattern has %d bytes, must have at most %d", n, longestPattern)
	}
	if n := strings.Count(pattern, "*"); n > mostStars {
		return fmt.Errorf("the pattern has %d stars, must have at most %d", n, mostStars)
	}
	return nil
}

// A glob is a pattern of Redis: * is any text, ? any byte, [a-z] and [^a-z] one byte, and a backslash takes
// the next byte literally. A regexp takes time proportional to the name, however many stars the pattern has.
type glob struct{ *regexp.Regexp }

func newGlob(pattern string) glob {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteByte('.')
		case c == '[':
			i += writeSet(&b, pattern[i+1:])
		case c == '\\' && i+1 < len(pattern):
			i++
			writeByte(&b, pattern[i])
		default:
			writeByte(&b, c)
		}
	}
	b.WriteString(`\z`)
	return glob{regexp.MustCompile(b.String())}
}

// matches reports whether a name matches, as Redis would.
func (g glob) matches(name string) bool { return g.MatchString(bytewise(name)) }

// bytewise returns a text with a rune for each byte, because Redis matches bytes.
func bytewise(text string) string {
	runes := make([]rune, len(text))
	for i := range runes {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// writeByte writes a byte of a pattern that stands for itself.
func writeByte(b *strings.Builder, c byte) { fmt.Fprintf(b, `\x{%x}`, c) }

// writeSet writes a set as alternatives and returns its length with the closing bracket. A set that is not
// closed ends with the pattern.
func writeSet(b *strings.Builder, set string) (length int) {
	i := 0
	not := i < len(set) && set[i] == '^'
	if not {
		i++
	}
	var ranges strings.Builder
	for ; i < len(set) && set[i] != ']'; i++ {
		first, last := set[i], set[i]
		switch {
		case set[i] == '\\' && i+1 < len(set):
			i++
			first, last = set[i], set[i]
		case i+2 < len(set) && set[i+1] == '-':
			first, last = min(first, set[i+2]), max(first, set[i+2])
			i += 2
		}
		fmt.Fprintf(&ranges, `\x{%x}-\x{%x}`, first, last)
	}
	switch {
	case ranges.Len() == 0 && not:
		b.WriteByte('.')
	case ranges.Len() == 0:
		b.WriteString(`[^\x{0}-\x{ff}]`) // nothing
	case not:
		fmt.Fprintf(b, "[^%s]", &ranges)
	default:
		fmt.Fprintf(b, "[%s]", &ranges)
	}
	return min(i+1, len(set))
}

package web

import (
	"fmt"
	"strings"
)

// The bounds of a pattern that a viewer gives. Old releases of Redis take very long for many stars.
const (
	longestPattern = 200
	mostStars      = 4
)

// checkPattern returns why a viewer's pattern is refused.
func checkPattern(pattern string) error {
	if n := len(pattern); n > longestPattern {
		return fmt.Errorf("the pattern has %d bytes, must have at most %d", n, longestPattern)
	}
	if n := strings.Count(pattern, "*"); n > mostStars {
		return fmt.Errorf("the pattern has %d stars, must have at most %d", n, mostStars)
	}
	return nil
}

// matches reports whether a name matches a pattern, as Redis would: * is any text, ? any byte, [a-z] and
// [^a-z] one byte, a backslash takes the next byte as it is.
func matches(pattern, name string) bool {
	// After a mismatch only the last star can take one more byte, so it takes len(pattern) * len(name)
	// steps at most.
	star, from := -1, 0
	for p, n := 0, 0; ; {
		if p < len(pattern) && pattern[p] == '*' {
			star, from = p+1, n
			p++
			continue
		}
		if n == len(name) {
			return p == len(pattern)
		}
		if p < len(pattern) {
			if ok, width := matchOne(pattern[p:], name[n]); ok {
				p, n = p+width, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star, from
		if from > len(name) {
			return false
		}
	}
}

// matchOne reports whether a byte matches the beginning of a pattern, and how long that is.
func matchOne(pattern string, b byte) (ok bool, width int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '[':
		return matchSet(pattern, b)
	case '\\':
		if len(pattern) > 1 {
			return pattern[1] == b, 2
		}
	}
	return pattern[0] == b, 1
}

// matchSet is matchOne for a pattern that begins with a set. One that is not closed ends with the pattern.
func matchSet(pattern string, b byte) (ok bool, width int) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == b
		case i+2 < len(pattern) && pattern[i+1] == '-':
			first, last := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || first <= b && b <= last
			i += 2
		default:
			ok = ok || pattern[i] == b
		}
	}
	return ok != not, min(i+1, len(pattern))
}

// Package words writes numbers, times and names for people, in inspect and on the command line.
package words

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Count returns "1 permit" or "2 permits".
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Name returns a name as it is if a terminal shows it as one word, and quoted as in Go otherwise, because a
// name may contain anything.
func Name(name string) string {
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, breaks) {
		return strconv.Quote(name)
	}
	return name
}

// breaks reports whether a character would end a word, or be an instruction to a terminal.
func breaks(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '"' }

// Span returns ms in the form of time.ParseDuration, without zero units: 1m, not 1m0s. The number may exceed
// a time.Duration, because any program may have written it.
func Span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d.Milliseconds() != ms {
		return fmt.Sprintf("%dms", ms)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// password is what an error quotes of a URL at a wrong place.
var password = regexp.MustCompile(`://.*@`)

// WithoutPasswords returns a text without the users and passwords of URLs.
func WithoutPasswords(text string) string { return password.ReplaceAllString(text, "://***@") }

// Harmless returns a text without instructions to a terminal, without passwords of URLs, and without the
// arguments that Redis quotes of a command that it does not know: those of AUTH are secrets.
func Harmless(text string) string {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, WithoutPasswords(text))
}

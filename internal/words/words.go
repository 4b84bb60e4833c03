// Package words puts numbers, times and names into texts for people: those of inspect and of
// the command line.
package words

import (
	"fmt"
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

// Name returns a name as it is if a terminal can show it as one word, and quoted as in Go otherwise:
// anybody may have chosen it.
func Name(name string) string {
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, breaks) {
		return strconv.Quote(name)
	}
	return name
}

// breaks reports whether a character would end a word, or do something to a terminal.
func breaks(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '"' }

// Span returns ms as time.ParseDuration takes them, without units of nothing: 1m, not 1m0s. They may
// be more than a time.Duration holds, for anybody may have written them.
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

// Harmless returns a text without what a terminal would act on.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

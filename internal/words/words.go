// Package words writes numbers, times and names for people, in inspect and on the command line.
package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
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

// password matches the user and the password of a URL, which an error may quote.
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

// JSON writes v as JSON with an indent, which may be empty. It escapes all unprintable characters, such as
// DEL, U+0080 to U+009F and direction marks, because names may contain any, and a terminal obeys them.
func JSON(w io.Writer, v any, indent string) error {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var safe bytes.Buffer
	for _, r := range plain.String() {
		if unicode.IsPrint(r) || r == '\n' {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err := safe.WriteTo(w)
	return err
}

// Version returns the version of the program as go install and go build record it, "(devel)" under go run,
// the commit if it was built in a clone, and the release of Go that built it.
func Version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Package golden compares texts of tests with files, and writes the files for go test -update.
package golden

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files, and the parts of docs that show them")

// Check compares a text with a file.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, file, read(t, file), got)
}

// CheckTimeless is Check for all but the times of a text.
func CheckTimeless(t testing.TB, file, got string) {
	t.Helper()
	if *update && withoutTimes(read(t, file)) != withoutTimes(got) {
		Check(t, file, got)
	}
	compare(t, file+" without times", withoutTimes(read(t, file)), withoutTimes(got))
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compare fails at the first line that differs.
func compare(t testing.TB, name, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		if i >= len(wants) || i >= len(gots) || wants[i] != gots[i] {
			const around = 5
			t.Errorf("%s:%d (go test -update writes it): got\n%s\nwant\n%s", name, i+1,
				strings.Join(gots[min(i, len(gots)):min(i+around, len(gots))], "\n"),
				strings.Join(wants[min(i, len(wants)):min(i+around, len(wants))], "\n"))
			return
		}
	}
}

// timeless are the forms of times, and what stands for them.
var timeless = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z|[+-]\d\d:\d\d)`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "CLOCK"},
	{regexp.MustCompile(`(_ms": )\d+`), "${1}N"}, // negative ones are replies of PTTL that are no times
	{regexp.MustCompile(`-?\b(\d+(\.\d+)?(h|ms|m|s))+\b`), "TIME"},
	{regexp.MustCompile(`\b\d{12,}\b`), "N"}, // ms since 1970, and fencing tokens, which begin there
	// The width of a column and the end of a line of a paragraph depend on the times in them.
	{regexp.MustCompile(`\n {4}| +`), ""},
}

// withoutTimes returns a text with a word for each time in it, and without blanks. Two texts that differ
// only in times become the same.
func withoutTimes(text string) string {
	for _, form := range timeless {
		text = form.is.ReplaceAllString(text, form.as)
	}
	return text
}

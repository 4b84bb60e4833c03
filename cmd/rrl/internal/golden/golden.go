// Package golden compares texts of tests with files, and writes the files for go test -update.
package golden

import (
	"flag"
	"os"
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

// CheckTimeless compares all but the times of a text with a file, which only Check writes.
func CheckTimeless(t testing.TB, file, got string) {
	t.Helper()
	compare(t, file+" without times", Timeless(read(t, file)), Timeless(got))
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

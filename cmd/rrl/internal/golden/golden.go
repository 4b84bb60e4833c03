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
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wants, gots := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		if i >= len(wants) || i >= len(gots) || wants[i] != gots[i] {
			const around = 5
			t.Errorf("%s:%d (go test -update writes it): got\n%s\nwant\n%s", file, i+1,
				strings.Join(gots[min(i, len(gots)):min(i+around, len(gots))], "\n"),
				strings.Join(wants[min(i, len(wants)):min(i+around, len(wants))], "\n"))
			return
		}
	}
}

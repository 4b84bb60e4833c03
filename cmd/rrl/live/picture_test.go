package live

import (
	"os"
	"strings"
	"testing"
)

// inPage compares a screen with the one in docs/watch.md, or writes that.
func inPage(t *testing.T, screen string) {
	t.Helper()
	const file, start, end = "../../../docs/watch.md", "```text\n", "\n```\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), start)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no block of text", file)
	}
	golden(t, file, before+start+screen+end+after)
}

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/shares"
)

func TestMain(m *testing.M) {
	shares.Main()
	redistest.VerifyNoLeaks(m)
}

// All parts in brief: the pages and pictures are written, and -redraw and -keep work.
func TestRun(t *testing.T) {
	redistest.Thorough(t)
	for _, program := range []string{"redis-server", "java", "mvn"} {
		redistest.Require(t, program)
	}
	o := options{rounds: 1, docs: t.TempDir(), brief: true}
	var out strings.Builder
	if err := run(t.Context(), &out, o, nil); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "<no value>") {
		t.Error("a value is missing")
	}
	checkPages(t, o.docs, out.String())
	if err := run(t.Context(), io.Discard, options{docs: o.docs, redraw: true}, nil); err != nil {
		t.Error(err)
	}
	checkPages(t, o.docs, out.String())
	for _, p := range append(pictures, picture{file: "leases"}) {
		text, err := os.ReadFile(filepath.Join(o.docs, p.file+".svg"))
		if err != nil || !strings.Contains(string(text), "<polyline") {
			t.Errorf("%s: %v", p.file, err)
		}
	}
	checkParts(t, o)
}

// checkParts runs single parts, and checks that an unknown one is refused and a kept one measured anew.
func checkParts(t *testing.T, o options) {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), &out, o, []string{"waiters", "lunch"}); err == nil {
		t.Error("an unknown part was run")
	}
	o.keep = true
	if err := run(t.Context(), io.Discard, o, []string{"wake"}); err != nil {
		t.Error(err)
	}
	r, err := loadReport(o.docs)
	if err != nil || len(r.Parts) != len(parts) || r.Later["wake"] == "" || len(r.Later) != 1 {
		t.Errorf("%d parts, measured later %v, %v", len(r.Parts), r.Later, err)
	}
}

// checkPages compares the pages with a text.
func checkPages(t *testing.T, docs, want string) {
	t.Helper()
	got := ""
	for _, file := range []string{"benchmarks.md", "comparison.md"} {
		text, err := os.ReadFile(filepath.Join(docs, file))
		if err != nil {
			t.Error(err)
		}
		got += string(text)
	}
	if got != want {
		t.Errorf("pages of %d bytes, not %d", len(got), len(want))
	}
}

// A change of report.md, of comparison.md or of the figures must reach the pages.
func TestPagesAreUpToDate(t *testing.T) {
	r, err := loadReport("../docs")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.publish(&out, ""); err != nil {
		t.Fatal(err)
	}
	checkPages(t, "../docs", out.String())
}

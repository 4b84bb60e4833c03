package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const benchmarks = "../docs/benchmarks.md"

// onlyPrinted are the scenarios without a table on the page.
var onlyPrinted = []string{"lone", "refused", "group"}

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// All scenarios in brief: each prints its table and writes it on the page, with a row for each contestant.
func TestRun(t *testing.T) {
	redistest.Thorough(t)
	for _, program := range []string{"redis-server", "java", "mvn"} {
		redistest.Require(t, program)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	redistest.NoError(t, os.WriteFile(page, []byte(read(t, benchmarks)), 0o600))
	var out strings.Builder
	redistest.NoError(t, run(t.Context(), &out, options{rounds: 1, page: page, brief: true}, nil))
	text := read(t, page)
	for _, s := range scenarios {
		_, rest, _ := strings.Cut(out.String(), s.name+": "+s.about+"\n\n")
		table, _, _ := strings.Cut(rest, "\n\n")
		for _, row := range s.rows {
			if strings.Count(table, "\n| "+row.name+" |") != 1 {
				t.Errorf("%s: one row of %s is wanted in:\n%s", s.name, row.name, table)
			}
		}
		if !slices.Contains(onlyPrinted, s.name) && !strings.Contains(text, mark(s.name)+table) {
			t.Errorf("%s: the page has another table than what is printed", s.name)
		}
	}
	if err := run(t.Context(), &out, options{}, []string{"lone", "lunch"}); err == nil {
		t.Error("an unknown scenario was run")
	}
}

// The page has a place for each table, and the tables there are those of the scenarios of today.
func TestPage(t *testing.T) {
	text := read(t, benchmarks)
	for _, s := range scenarios {
		head, _, _ := strings.Cut(newFindings(&env{scenario: s}).table().String(), "\n")
		if s.custom != nil {
			head = "|"
		}
		if !slices.Contains(onlyPrinted, s.name) && !strings.Contains(text, mark(s.name)+head) {
			t.Errorf("%s has no table %s with the head %s", benchmarks, s.name, head)
		}
	}
	if places := strings.Count(text, endMark); places != len(scenarios)-len(onlyPrinted)+1 { // the machine's
		t.Errorf("%s: %d tables", benchmarks, places)
	}
}

// A figure by which a rival is ahead is bold; one that is not there is a dash.
func TestTable(t *testing.T) {
	f := newFindings(&env{scenario: scenario{
		crowds: []crowd{{1, 1}}, rows: []contestant{{name: "ours"}, {name: "theirs", rival: true}},
		columns: []column{
			{"p50", 0, p50, less}, {"calls/s", 0, perSecond, more},
			{"CPU", 0, cpu, less}, {"allocs", 0, allocs, neither},
		},
	}})
	f.samples[0][0] = []sample{
		{p50: 30, perSecond: 10, cpu: 1, allocs: 9}, {p50: 20, perSecond: 10, cpu: 1, allocs: 9},
	}
	f.samples[1][0] = []sample{
		{p50: 10, perSecond: 2e5, cpu: 0.95, allocs: math.NaN()},
		{p50: 20, perSecond: 2e5, cpu: 0.95, allocs: math.NaN()},
	}
	want := "| | p50 | calls/s | CPU | allocs |\n|---|--:|--:|--:|--:|\n" +
		"| ours | 20 | 10 | 1 | 9 |\n| theirs | 10 | **200,000** | 0.95 | - |\n"
	if got := f.table().String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	redistest.NoError(t, err)
	return string(text)
}

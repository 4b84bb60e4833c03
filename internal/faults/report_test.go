package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
)

// The figures of rounds are summed up in one line, and the worst of them stays.
func TestFigures(t *testing.T) {
	var f Figures
	for i, name := range []string{"cluster: b", "a", "cluster: b"} {
		ms := time.Duration(i) * time.Millisecond
		f.add(&Report{Fault: name, Calls: 10, Granted: 3, JavaGranted: 2, Lost: int64(i),
			Late: Lateness{[]time.Duration{ms}}, Answer: 3*time.Millisecond - ms,
			Worst: grants.Window{Intervals: 1, Sum: int64(40 + i%2)}})
	}
	want := "3 faults (a 1, b 2); 30 acquires of Go, 15 permits granted; worst window 41 of 50 permits; " +
		"3 permits lost; callers late by 2ms at most, p99.9 2ms; Redis answered within 3ms"
	if got := f.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	f.add(&Report{Fault: "a", Wrong: []string{"it is"}})
	if len(f.Wrong) != 1 || f.Wrong[0] != "a: it is" {
		t.Errorf("%q", f.Wrong)
	}
}

// A report says all that is wrong, and what was expected to be so.
func TestReport(t *testing.T) {
	r := newReport(Fault{Name: "something"})
	r.Errors, r.JavaStuck = map[string]int{"OOM": 2, "BUSY": 1}, 3
	r.Losses = []grants.Loss{{Why: "Redis forgot"}}
	r.wrong("%d permits", 7)
	for _, want := range []string{"something: ", "BUSY 1, OOM 2", "3 threads stuck", "; Redis forgot",
		"\n  7 permits"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("no %q in %s", want, r)
		}
	}
}

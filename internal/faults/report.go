package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/grants"
)

// A Report is what callers saw of a fault.
type Report struct {
	Fault string
	Limit grants.Limit
	Wrong []string // broken promises

	Calls, Granted int            // calls of Go, and permits
	Errors         map[string]int // of Go, by kind
	Back           time.Duration  // until each Client of Go was served again
	Late           time.Duration  // the longest that a caller of Go had its result after its timeout
	Worst          grants.Window
	Losses         []grants.Loss
	Lost           int64 // permits that were not back after an interval

	JavaGranted int
	JavaErrors  map[string]int
	JavaStuck   int // threads whose calls never returned
	JavaBack    time.Duration
}

func (r *Report) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

// String returns the report as a line, and a line for each broken promise.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: Go %d calls, %d permits, back after %v, late %v, errors %s", r.Fault, r.Calls,
		r.Granted, r.Back.Round(time.Millisecond), r.Late.Round(time.Millisecond),
		counts(r.Errors))
	fmt.Fprintf(&b, "; Java %d permits, back after %v, exceptions %s", r.JavaGranted,
		r.JavaBack.Round(time.Millisecond), counts(r.JavaErrors))
	if r.JavaStuck > 0 {
		fmt.Fprintf(&b, ", %d threads stuck", r.JavaStuck)
	}
	fmt.Fprintf(&b, "; worst window %v of %d", r.Worst, r.Limit.Rate)
	for _, loss := range r.Losses {
		fmt.Fprintf(&b, "; %s", loss.Why)
	}
	for _, wrong := range r.Wrong {
		fmt.Fprintf(&b, "\n  %s", wrong)
	}
	return b.String()
}

func counts(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", kind, of[kind]))
	}
	return strings.Join(all, ", ")
}

// Figures returns the sums of many reports in one line.
func Figures(reports []*Report) string {
	var sum Report
	faults := map[string]int{}
	for _, r := range reports {
		faults[strings.TrimPrefix(r.Fault, "cluster: ")]++
		sum.Calls += r.Calls
		sum.Granted += r.Granted + r.JavaGranted
		sum.Lost += max(0, r.Lost)
		sum.Late = max(sum.Late, r.Late)
		if r.Worst.Permits() >= sum.Worst.Permits() {
			sum.Worst, sum.Limit = r.Worst, r.Limit
		}
	}
	return fmt.Sprintf("%d faults (%s); %d acquires of Go, %d permits granted; "+
		"worst window %d of %d permits; %d permits lost; callers late by %v at most",
		len(reports), counts(faults), sum.Calls, sum.Granted, sum.Worst.Permits(), sum.Limit.Rate, sum.Lost,
		sum.Late.Round(time.Millisecond/10))
}

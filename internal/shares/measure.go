package shares

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Grant is the permits that a call got.
type Grant struct {
	At      time.Time
	Waited  time.Duration
	Permits int64
	Client  int // an index in its side
}

// Grants are the permits that one side got, and its calls since the bounds hold.
type Grants struct {
	All    []Grant
	Asked  int // calls
	Served int // calls that were granted
}

// A Result is the result of one run.
type Result struct {
	Go, Java []int64 // permits in each interval, from the start

	// The rest is measured since the bounds hold.
	Part                 float64       // of the permits that Go got
	Used                 float64       // part of the limit
	Index                float64       // Jain's, of processes: the median over pairs of intervals
	Gap                  time.Duration // the longest without a permit for a side
	Longest, LongestJava time.Duration // waits
	Served               float64       // part of the calls of Java
}

// Measure returns the result of a run that began at start.
func (sc Scenario) Measure(start time.Time, golang, java Grants) (r Result) {
	n, first := sc.Intervals(), sc.judgedFrom()
	r.Go, r.Java = sc.perInterval(start, golang.All, -1), sc.perInterval(start, java.All, -1)
	goes, javas := sum(r.Go[first:]), sum(r.Java[first:])
	r.Part = float64(goes) / float64(max(1, goes+javas))
	r.Used = float64(goes+javas) / float64(sc.Rate*int64(n-first))
	r.Index = sc.index(start, golang.All, java.All)
	bounds := start.Add(time.Duration(first) * sc.Interval)
	end := start.Add(time.Duration(n) * sc.Interval)
	r.Gap = gap(bounds, end, golang.All)
	if sc.Java.Clients > 0 && sc.Java.Till == 0 {
		r.Gap = max(r.Gap, gap(bounds, end, java.All))
	}
	r.Longest, r.LongestJava = longestFrom(bounds, golang.All), longestFrom(bounds, java.All)
	r.Served = float64(java.Served) / float64(max(1, java.Asked))
	return r
}

// perInterval returns the permits that a client got in each interval, or those of all clients for -1.
func (sc Scenario) perInterval(start time.Time, grants []Grant, client int) []int64 {
	got := make([]int64, sc.Intervals())
	for _, g := range grants {
		if i := int(g.At.Sub(start) / sc.Interval); i < len(got) && (client < 0 || g.Client == client) {
			got[i] += g.Permits
		}
	}
	return got
}

// index returns the median over pairs of intervals of Jain's index of processes. Java counts as one process.
func (sc Scenario) index(start time.Time, golang, java []Grant) float64 {
	var processes [][]int64
	for client := range sc.Go.Clients {
		processes = append(processes, sc.perInterval(start, golang, client))
	}
	if sc.Java.Clients > 0 {
		processes = append(processes, sc.perInterval(start, java, -1))
	}
	var all []float64
	for i := sc.judgedFrom(); i+1 < sc.Intervals(); i++ {
		got := make([]float64, len(processes))
		for p, permits := range processes {
			got[p] = float64(permits[i] + permits[i+1])
		}
		all = append(all, Index(got))
	}
	return median(all)
}

// Index returns Jain's fairness index: 1 if all got the same, 1/n if one of n got everything, 0 if none got
// anything.
func Index(got []float64) float64 {
	var sum, squares float64
	for _, x := range got {
		sum += x
		squares += x * x
	}
	if squares <= 0 {
		return 0
	}
	return sum * sum / (float64(len(got)) * squares)
}

// gap returns the longest time without a grant between from and to.
func gap(from, to time.Time, grants []Grant) (longest time.Duration) {
	slices.SortFunc(grants, func(a, b Grant) int { return a.At.Compare(b.At) })
	for _, g := range grants {
		if g.At.After(from) && g.At.Before(to) {
			longest, from = max(longest, g.At.Sub(from)), g.At
		}
	}
	return max(longest, to.Sub(from))
}

// longestFrom returns the longest wait that began after a time.
func longestFrom(start time.Time, grants []Grant) (longest time.Duration) {
	for _, g := range grants {
		if g.At.Add(-g.Waited).After(start) {
			longest = max(longest, g.Waited)
		}
	}
	return longest
}

func sum(permits []int64) (all int64) {
	for _, n := range permits {
		all += n
	}
	return all
}

func median[T ~int64 | ~float64](of []T) T {
	slices.Sort(of)
	return of[len(of)/2]
}

// of returns the median of a figure over the results.
func of[T ~int64 | ~float64](results []Result, figure func(Result) T) T {
	all := make([]T, len(results))
	for i, r := range results {
		all[i] = figure(r)
	}
	return median(all)
}

// Judge returns a text with the medians of some runs and the first intervals of one of them, and
// the bounds that the medians are out of; empty if there are none.
func (sc Scenario) Judge(results []Result) (says, wrong string) {
	part := of(results, func(r Result) float64 { return r.Part })
	used := of(results, func(r Result) float64 { return r.Used })
	index := of(results, func(r Result) float64 { return r.Index })
	gap := of(results, func(r Result) time.Duration { return r.Gap })
	longest := of(results, func(r Result) time.Duration { return r.Longest })
	served := of(results, func(r Result) float64 { return r.Served })
	javas := of(results, func(r Result) time.Duration { return r.LongestJava })
	const ms = time.Millisecond
	says = fmt.Sprintf("%-50v Go %3.0f %%, used %5.1f %%, Jain %.3f, ", sc, 100*part, 100*used, index)
	says += fmt.Sprintf("longest without permits %v, longest waits %v, %v",
		gap.Round(ms), longest.Round(ms), javas.Round(ms))
	if sc.Served > 0 {
		says += fmt.Sprintf(", %.0f %% of the calls of Java succeed", 100*served)
	}
	some := min(20, sc.Intervals())
	first := results[0]
	says += fmt.Sprintf("\n  Go   %3d\n  Java %3d", first.Go[:some], first.Java[:some])
	var all []string
	check := func(right bool, what string) {
		if !right {
			all = append(all, what)
		}
	}
	check(part >= sc.Least && part <= sc.Most, fmt.Sprint("part of Go, ", sc.Least, " to ", sc.Most))
	check(used >= sc.Used, fmt.Sprint("used, at least ", sc.Used))
	check(index >= sc.Index, fmt.Sprint("Jain, at least ", sc.Index))
	check(served >= sc.Served, fmt.Sprint("calls of Java, at least ", sc.Served))
	check(sc.Uneven || gap <= sc.Interval+200*ms, fmt.Sprint("without permits, at most ", sc.Interval+200*ms))
	check(sc.Uneven || longest <= sc.longest(), fmt.Sprint("wait of Go, at most ", sc.longest()))
	return says, strings.Join(all, ", ")
}

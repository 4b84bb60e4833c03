package shares

import (
	"slices"
	"time"
)

// A grant is permits that a caller got, and the time of the result.
type grant struct {
	at      time.Time
	permits int64
	waited  time.Duration
}

// A window is a span in which all callers work.
type window struct{ from, to time.Time }

// count returns the permits of the grants. Each counts for the part of its
// interval that lies in the window.
func (w window) count(grants []grant, interval time.Duration) (permits float64) {
	for _, g := range grants {
		from, to := g.at, g.at.Add(interval)
		if from.Before(w.from) {
			from = w.from
		}
		if to.After(w.to) {
			to = w.to
		}
		permits += float64(g.permits) * max(0, float64(to.Sub(from))/float64(interval))
	}
	return permits
}

// A Share is what one side got.
type Share struct {
	Granted float64 // permits
	Got     float64 // of the permits that both sides were granted
	Due     float64 // the same, if all callers got what they ask for in proportion
}

// Ratio returns what the side got, divided by its due; 1 is fair.
func (s Share) Ratio() float64 { return s.Got / s.Due }

// A Result is the result of one run.
type Result struct {
	Go, Java Share
	Possible float64 // permits
}

func newResult(sc Scenario, golang, java, possible float64) Result {
	all, due := max(golang+java, 1), sc.Go.weight()+sc.Java.weight()
	return Result{
		Go:       Share{golang, golang / all, sc.Go.weight() / due},
		Java:     Share{java, java / all, sc.Java.weight() / due},
		Possible: possible,
	}
}

// Used returns the part of the limit that was used; 1 means that every permit
// was taken the moment it came back.
func (r Result) Used() float64 { return (r.Go.Granted + r.Java.Granted) / r.Possible }

// Several are the results of one scenario. Each run had other Redisson instances.
type Several []Result

// A Spread is the median and the worst of a figure of several results.
type Spread struct{ Median, Worst float64 }

// Go returns the spread of the ratio of Go.
func (s Several) Go() Spread { return spread(s, func(r Result) float64 { return r.Go.Ratio() }) }

// Java returns the spread of the ratio of Java.
func (s Several) Java() Spread { return spread(s, func(r Result) float64 { return r.Java.Ratio() }) }

// Used returns the spread of the part of the limit that was used.
func (s Several) Used() Spread { return spread(s, Result.Used) }

// spread returns the spread of a figure of which more is better.
func spread[T any](results []T, of func(T) float64) Spread {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	slices.Sort(values)
	return Spread{values[(len(values)-1)/2], values[0]}
}

// Index returns Jain's fairness index: 1 if all got the same, 1/n if one of n got
// everything, 0 if none got anything.
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

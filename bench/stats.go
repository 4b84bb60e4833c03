package main

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quantile returns the least value that a part of all values, 0 to 1, does not exceed, and the zero value if
// there are no values. It sorts them.
func quantile[T cmp.Ordered](values []T, part float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	slices.Sort(values)
	rank := int(math.Ceil(part * float64(len(values))))
	return values[max(1, rank)-1]
}

func median[T any](samples []T, figure func(T) num) num {
	values := make([]num, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return quantile(values, 0.5)
}

// medians returns the median of each figure by itself: the round with the median p50 need not be the one with
// the median p99. T is a struct of nums.
func medians[T any](samples []T) (m T) {
	to := reflect.ValueOf(&m).Elem()
	for i := range to.NumField() {
		of := func(s T) num { return num(reflect.ValueOf(s).Field(i).Float()) }
		to.Field(i).SetFloat(float64(median(samples, of)))
	}
	return m
}

// ratio returns the median over the rounds of a figure of a by that of b, NaN if one of them has no round.
func ratio[T any](a, b []T, figure func(T) num) num {
	ratios := make([]num, min(len(a), len(b)))
	if len(ratios) == 0 {
		return num(math.NaN())
	}
	for i := range ratios {
		ratios[i] = figure(a[i]) / figure(b[i])
	}
	return quantile(ratios, 0.5)
}

// itself is the figure of samples that are one.
func itself(n num) num { return n }

func micros(d time.Duration) num { return num(d) / num(time.Microsecond) }

func millis(d time.Duration) num { return num(d) / num(time.Millisecond) }

// takeTurns calls do for each of n contestants in each round. Each round begins with another one, so that
// none always follows the same one, and without the garbage of the one before.
func takeTurns(ctx context.Context, name string, rounds, n int, do func(who int) error) error {
	for round := range rounds {
		for i := range n {
			runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
			if err := cmp.Or(ctx.Err(), do((i+round)%n)); err != nil {
				return err
			}
		}
		progress("%s: round %d of %d", name, round+1, rounds)
	}
	return nil
}

// A spread is what calls took, in µs: most of them, and the slowest of a hundred.
type spread struct{ P50, P99 num }

func spreadOf(took []time.Duration) spread {
	return spread{micros(quantile(took, 0.50)), micros(quantile(took, 0.99))}
}

// inTurns lets each of asks ask so many times, in turns, call by call. An idle machine takes a while to wake
// up, which makes a call several times as long, and decides anew for each batch how deep it sleeps. In turns
// it decides once for all of them.
func inTurns(ctx context.Context, asks []ask, times int) ([]spread, error) {
	jobs, spreads := make([]func() error, len(asks)), make([]spread, len(asks))
	for i, once := range asks {
		jobs[i] = func() error {
			_, err := once(ctx)
			return err
		}
	}
	ns, err := loops(ctx, jobs, times, 1)
	for i := range ns {
		spreads[i] = spread{quantile(ns[i], 0.50) / 1000, quantile(ns[i], 0.99) / 1000}
	}
	return spreads, err
}

// loops runs each of jobs times times in a row, in turns, and returns by job how many ns a run took in each
// round. On a busy machine rounds should be shorter than a slice of time of the system, some ms: then most of
// them are not interrupted, and neither is their median.
func loops(ctx context.Context, jobs []func() error, rounds, times int) ([][]num, error) {
	ns := make([][]num, len(jobs))
	for round := range rounds {
		for i := range jobs {
			who := (i + round) % len(jobs)
			start := time.Now()
			for range times {
				if err := jobs[who](); err != nil {
					return nil, err
				}
			}
			ns[who] = append(ns[who], num(time.Since(start))/num(times))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return ns, nil
}

// heapMB returns the MB of heap that are in use when all garbage is collected.
func heapMB() num {
	var m runtime.MemStats
	for range 2 { // a sync.Pool keeps its values through the first collection
		runtime.GC() //revive:disable-line:call-to-gc the heap without garbage is what is measured
	}
	runtime.ReadMemStats(&m)
	return num(m.HeapAlloc) / 1e6
}

// A num is a figure in the stored data. JSON has no infinity: it becomes null, which the page prints as "-".
type num float64

// MarshalJSON returns the figure, or null if it is not finite.
func (n num) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// figureOf prints a figure as JSON has it: nil is one that is not finite.
func figureOf(v any) string {
	switch f := v.(type) {
	case float64:
		return figure(f)
	case num:
		return figure(float64(f))
	}
	return "-"
}

// count prints a count that is noAllocs where none was taken.
func count(v any) string {
	if text := figureOf(v); !strings.HasPrefix(text, "-") {
		return text
	}
	return "-"
}

// figure prints a value with three digits that count.
func figure(v float64) string {
	abs := math.Abs(v)
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "-"
	case abs >= 1000:
		return thousands(v)
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case abs >= 1:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	}
	return trim(strconv.FormatFloat(v, 'f', 4, 64))
}

// trim removes zeros behind the point, and a point that nothing follows.
func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// thousands prints a value as a whole number, or with three digits that count from 100,000 on, with a comma
// between the thousands.
func thousands(v float64) string {
	if v >= 1e5 {
		digits := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/digits) * digits
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

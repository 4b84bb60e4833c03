package main

import "fmt"

// A target is a figure that the library should reach, and the one it reached.
type target struct {
	ID, What    string
	Wanted, Got string
	Met         bool
	Part        string // that measured it
}

// most is a target that a figure up to bound meets. unit follows both figures.
func most(id, what string, value, bound float64, unit string) target {
	return target{
		ID: id, What: what, Wanted: "at most " + figure(bound) + unit, Got: figure(value) + unit,
		Met: value <= bound,
	}
}

// least is a target that a figure from bound on meets.
func least(id, what string, value, bound float64, unit string) target {
	t := most(id, what, value, bound, unit)
	t.Wanted, t.Met = "at least "+figure(bound)+unit, value >= bound
	return t
}

// unmeasured is t without its figure: a contestant has failed.
func (t target) unmeasured() target {
	t.Got, t.Met = "not measured", false
	return t
}

// ratio returns the median over the rounds of a figure of contestant a by that
// of b; ok is false if one of them has none.
func (t *table) ratio(a, b int, of func(sample) float64) (ratio float64, ok bool) {
	n := min(len(t.rows[a]), len(t.rows[b]))
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = of(t.rows[a][i]) / of(t.rows[b][i])
	}
	return quantile(ratios, 0.5), n > 0
}

// The figures of a sample.
func perSecond(s sample) float64 { return s.perSecond }
func p50(s sample) float64       { return s.p50 }
func p99(s sample) float64       { return s.p99 }
func p999(s sample) float64      { return s.p999 }
func cpu(s sample) float64       { return s.cpu }
func script(s sample) float64    { return s.script }
func calls(s sample) float64     { return s.calls }
func allocs(s sample) float64    { return s.allocs }

// wantedOfRedisson says, by callers, how many times the acquires a second of
// Redisson are wanted. A lone caller gains what Go saves over Java; many callers
// share calls, and gain almost as much as there are callers.
var wantedOfRedisson = map[int]float64{1: 1.4, 8: 2.5, 64: 14, 512: 120}

// tolerance is by how much two contestants that do the same may differ: two runs
// of the same batch on a small machine do.
const tolerance = 0.1

// targets returns the targets of the part callers.
func (r *callersResult) targets() (all []target) {
	for i := range r.tables {
		all = append(all, r.tables[i].speedTargets()...)
	}
	lone := median(r.turns, func(t []spread) float64 { return micros(t[ours].p50) / micros(t[floor].p50) })
	all = append(all, most("T2", "p50, 1 caller, call by call in turns: this library by the bare EVALSHA",
		lone, 1.35, ""))
	for i := range r.tables {
		all = append(all, r.latencyTarget(&r.tables[i]))
	}
	for i := range r.tables {
		all = append(all, r.tables[i].costTargets()...)
	}
	return all
}

// speedTargets returns those for acquires a second. With 4,096 callers a JVM may
// fail, so there we are compared with ourselves.
func (t *table) speedTargets() (all []target) {
	what := "acquires per second, " + callersText(t.callers) + ": this library by "
	if wanted, there := wantedOfRedisson[t.callers]; there {
		all = append(all, t.leastOf("T1", what+"Redisson", redisson, wanted))
	}
	if t.callers == 4096 {
		all = append(all, t.leastOf("T1", what+"one call per caller", alone, 25))
	}
	return all
}

// leastOf is a target for our acquires a second by those of a contestant.
func (t *table) leastOf(id, what string, who int, wanted float64) target {
	got, ok := t.ratio(ours, who, perSecond)
	goal := least(id, what, got, wanted, "")
	if !ok {
		return goal.unmeasured()
	}
	return goal
}

// latencyTarget is that merging callers makes the slowest of them no slower. A
// lone caller is not merged: both do the same, and only noise separates them.
func (r *callersResult) latencyTarget(t *table) target {
	what := fmt.Sprintf("p99, %s: this library by one call per caller", callersText(t.callers))
	if t.callers == 1 {
		got := median(r.turns, func(t []spread) float64 { return micros(t[ours].p99) / micros(t[alone].p99) })
		return most("T2", what+", in turns (both do the same then; 1 but for noise)", got, 1+tolerance, "")
	}
	got, ok := t.ratio(ours, alone, p99)
	goal := most("T2", what, got, 1, "")
	if !ok {
		return goal.unmeasured()
	}
	return goal
}

// costTargets returns those for the CPU of Redis and the allocations of Go. Both
// are shared by the callers of a batch, so they are asked for many callers.
func (t *table) costTargets() (all []target) {
	if t.callers == 512 {
		got, ok := t.ratio(ours, redisson, cpu)
		goal := most("T3", fmt.Sprintf("CPU of Redis per acquire, %s: this library by Redisson",
			callersText(t.callers)), got, 0.01, "")
		if !ok {
			goal = goal.unmeasured()
		}
		all = append(all, goal)
	}
	if t.callers >= 64 {
		all = append(all, most("T7", fmt.Sprintf("allocations per acquire, %s who are merged",
			callersText(t.callers)), median(t.rows[ours], allocs), 1, ""))
	}
	return all
}

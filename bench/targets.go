package main

import "fmt"

// A target is what is to be reached, and what was.
type target struct {
	id, what    string
	wanted, got string
	met         bool
}

// most is a target that is met by a figure up to bound; unit is printed behind
// both.
func most(id, what string, value, bound float64, unit string) target {
	return target{
		id: id, what: what, wanted: "at most " + figure(bound) + unit, got: figure(value) + unit,
		met: value <= bound,
	}
}

// least is a target that is met by a figure from bound on.
func least(id, what string, value, bound float64, unit string) target {
	t := most(id, what, value, bound, unit)
	t.wanted, t.met = "at least "+figure(bound)+unit, value >= bound
	return t
}

// targets are those of all parts that have run.
func (r *report) targets() (all []target) {
	if r.callers != nil {
		all = append(all, r.callers.targets()...)
	}
	if w := r.waiters; w != nil {
		for _, one := range []struct {
			name  string
			calls float64
			waitResult
		}{{"in bursts", 0.1, w.median(false)}, {"evenly", 1.1, w.median(true)}} {
			who := fmt.Sprintf("%s waiters at 100/s, permits come %s: ", thousands(float64(r.plan.waiters)), one.name)
			all = append(all,
				most("T4", who+"script calls per grant", one.waitResult.calls, one.calls, ""),
				most("T4", who+"served out of order", one.early, 0, ""),
				most("T4", who+"late, p99; 3 ms and a round trip", one.late, 3+one.roundTrip, " ms"))
		}
	}
	if b := r.bytes; b != nil {
		all = append(all, most("T5", fmt.Sprintf("%s permits outstanding, resolution of a thousandth of the window: "+
			"in Redis", thousands(float64(b.merged.permits))), float64(b.merged.bytes)/1000, 200, " KB"))
	}
	for _, e := range r.expiries {
		all = append(all, most("T5", fmt.Sprintf("%s records expire at once, %s newer ones count, asked for %s: "+
			"longest script", thousands(float64(r.plan.records)), thousands(float64(e.newer)), e.asked),
			quantile(e.ms, 0.5), 5, " ms"))
	}
	if r.wake != nil {
		all = append(all, most("T6", "a Release elsewhere wakes a waiter, p99", r.wake.p99, 5, " ms"))
	}
	if a := r.allocs; a != nil {
		all = append(all, most("T7", "allocations per uncontended TryAcquire; three more than Script.Run",
			a.ours, a.floor+3, ""))
	}
	if r.callers != nil {
		all = append(all, r.callers.allocTargets()...)
	}
	if i := r.idle; i != nil {
		all = append(all, most("T8", fmt.Sprintf("heap after touching %s names, beyond that before",
			thousands(float64(i.names))), i.after-i.before, 5, " MB"))
	}
	if r.beside != nil {
		all = append(all, r.beside.targets()...)
	}
	return all
}

// ratio is the median over the rounds of a figure of one contestant by that of
// another one; ok is false if one of them has none.
func (t *table) ratio(a, b int, of func(sample) float64) (ratio float64, ok bool) {
	n := min(len(t.rows[a]), len(t.rows[b]))
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = of(t.rows[a][i]) / of(t.rows[b][i])
	}
	return quantile(ratios, 0.5), n > 0
}

func perSecond(s sample) float64 { return s.perSecond }
func p50(s sample) float64       { return s.p50 }
func p99(s sample) float64       { return s.p99 }
func p999(s sample) float64      { return s.p999 }
func cpu(s sample) float64       { return s.cpu }
func script(s sample) float64    { return s.script }
func calls(s sample) float64     { return s.calls }
func allocs(s sample) float64    { return s.allocs }

// How many times as many acquires a second as Redisson are wanted, by callers.
var wantedOfRedisson = map[int]float64{1: 1.4, 8: 2.5, 64: 14, 512: 120}

func (r *callersResult) targets() (all []target) {
	add := func(t target, ok bool) {
		if !ok {
			t.got, t.met = "not measured", false
		}
		all = append(all, t)
	}
	for i := range r.tables {
		t := &r.tables[i]
		if wanted, there := wantedOfRedisson[t.callers]; there {
			got, ok := t.ratio(ours, redisson, perSecond)
			add(least("T1", fmt.Sprintf("acquires per second, %s: this library by Redisson", t.who()), got, wanted, ""), ok)
		}
		if t.callers == 4096 {
			got, ok := t.ratio(ours, alone, perSecond)
			add(least("T1", fmt.Sprintf("acquires per second, %s: this library by one call per caller", t.who()), got, 25, ""), ok)
		}
	}
	lone := median(r.turns, func(t turn) float64 { return t.p50[ours] / t.p50[floor] })
	add(most("T2", "p50, 1 caller, call by call in turns: this library by the bare EVALSHA", lone, 1.35, ""), true)
	for i := range r.tables {
		t := &r.tables[i]
		what := fmt.Sprintf("p99, %s: this library by one call per caller", t.who())
		if t.callers == 1 {
			got := median(r.turns, func(t turn) float64 { return t.p99[ours] / t.p99[alone] })
			add(most("T2", what+", in turns (both do the same then; 1 but for noise)", got, 1+noise, ""), true)
			continue
		}
		got, ok := t.ratio(ours, alone, p99)
		add(most("T2", what, got, 1, ""), ok)
	}
	for i := range r.tables {
		if t := &r.tables[i]; t.callers == 512 {
			got, ok := t.ratio(ours, redisson, cpu)
			add(most("T3", fmt.Sprintf("CPU of Redis per acquire, %s: this library by Redisson", t.who()), got, 0.01, ""), ok)
		}
	}
	return all
}

// noise is by how much two that do the same may differ here.
const noise = 0.1

func (r *callersResult) allocTargets() (all []target) {
	for i := range r.tables {
		if t := &r.tables[i]; t.callers >= 64 {
			all = append(all, most("T7", fmt.Sprintf("allocations per acquire, %s who are merged", t.who()),
				median(t.rows[ours], allocs), 1, ""))
		}
	}
	return all
}

func (t *table) who() string {
	if t.callers == 1 {
		return "1 caller"
	}
	return thousands(float64(t.callers)) + " callers"
}

package main

// A memoryData is what the page shows of limiters in memory.
type memoryData struct {
	Keys, Callers int
	Rows          []memoryRow
}

// A memoryRow is a contestant. Nil stands for what it does not have.
type memoryRow struct {
	Algorithm, Name string
	NS              [memoryWays]*num
	MostAllocs      *num // of a call, with a key or without
	PerKey, Left    *num
	Worst           *num // this library by it, the worst of all ways; nil for this library
}

// memoryDataOf returns the medians.
func memoryDataOf(s *scope, results []*memoryResult) *memoryData {
	d := &memoryData{Keys: amount(s, 1_000_000, 1000), Callers: memoryCallers}
	for _, r := range results {
		row := memoryRow{Algorithm: r.algorithm, Name: r.name}
		for way, ns := range r.ns {
			if ns != nil {
				row.NS[way] = given(median(ns, float64Of))
			}
		}
		row.MostAllocs = given(max(r.allocs[0], r.allocs[1]))
		if r.name != oursName {
			row.Worst = given(worstByRival(results, r))
		}
		if r.keyed != nil {
			row.PerKey, row.Left = given(r.room.perKey), given(r.room.left)
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// given is a figure that there is.
func given(v float64) *num { return new(num(v)) }

func float64Of(v float64) float64 { return v }

// worstByRival returns the median of the ratios of ours to a rival, for the way to call
// in which it is worst. Both have that form.
func worstByRival(results []*memoryResult, rival *memoryResult) (worst float64) {
	for _, r := range results {
		if r.name != oursName || r.algorithm != rival.algorithm {
			continue
		}
		for way := range r.ns {
			if by, ok := medianRatio(r.ns[way], rival.ns[way]); ok {
				worst = max(worst, by)
			}
		}
	}
	return worst
}

// medianRatio returns the median over the rounds of a by b.
func medianRatio(a, b []float64) (ratio float64, ok bool) {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return quantile(ratios, 0.5), len(ratios) > 0
}

// memoryTargets returns that ours is not slower than any rival, does not allocate, and
// drops idle keys.
func memoryTargets(results []*memoryResult) (all []target) {
	for _, r := range results {
		what := r.algorithm + " in memory: "
		if r.name == oursName {
			all = append(all,
				most("T14", what+"allocations of a call", max(r.allocs[0], r.allocs[1]), 0, ""),
				most("T14", what+"keys that are idle, part of their heap", r.room.left, 0.01, ""))
			continue
		}
		all = append(all, most("T14", what+"ns of a call by "+r.name+", the worst way to call",
			worstByRival(results, r), 1+tolerance, ""))
	}
	return all
}

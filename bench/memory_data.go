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
	ByIt            [memoryWays]*num // this library, by it
	Allocs          [2]*num
	PerKey, Left    *num
}

// memoryDataOf returns the medians.
func memoryDataOf(s *scope, results []*memoryResult) *memoryData {
	d := &memoryData{Keys: amount(s, 1_000_000, 1000), Callers: memoryCallers}
	for _, r := range results {
		row := memoryRow{Algorithm: r.algorithm, Name: r.name}
		for way, ns := range r.ns {
			if ns == nil {
				continue
			}
			row.NS[way] = given(median(ns, float64Of))
			row.Allocs[way/keysOne] = given(r.allocs[way/keysOne])
			if by, ok := byRival(results, r, way); ok && r.name != oursName {
				row.ByIt[way] = given(by)
			}
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

// byRival returns the median of the ratios of ours to a rival, and whether both have
// this form.
func byRival(results []*memoryResult, rival *memoryResult, way int) (ratio float64, ok bool) {
	for _, r := range results {
		if r.name == oursName && r.algorithm == rival.algorithm {
			return medianRatio(r.ns[way], rival.ns[way])
		}
	}
	return 0, false
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
		if r.name == oursName {
			all = append(all,
				most("T13", r.algorithm+" in memory: allocations of a call", max(r.allocs[0], r.allocs[1]), 0, ""),
				most("T13", r.algorithm+" in memory: keys that are idle, part of their heap", r.room.left, 0.01, ""))
			continue
		}
		worst := 0.0
		for way := range r.ns {
			if by, ok := byRival(results, r, way); ok {
				worst = max(worst, by)
			}
		}
		all = append(all, most("T13", r.algorithm+" in memory: ns of a call by "+r.name+", the worst way to call",
			worst, 1+tolerance, ""))
	}
	return all
}

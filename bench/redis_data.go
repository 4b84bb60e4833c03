package main

// A redisData is what the page shows of limiters on Redis.
type redisData struct {
	Callers int
	Rows    []redisRow
}

// A redisRow is a contestant.
type redisRow struct {
	Algorithm, Name       string
	P50                   num // µs, one caller
	PerSecond             num // many callers
	CPU                   num // µs of the process of Redis per call, many callers
	Trips, Sent, Received num
	PerKey                num
	Allocs                num
	ByP50, ByMany, ByCPU  *num  // this library, by it: time, time of many, CPU
	Piped                 []num `json:",omitempty"` // the same, of ours with a pipeline, where it has one
}

// redisDataOf returns the medians.
func redisDataOf(results []*redisResult) *redisData {
	d := &redisData{Callers: redisCallers[1]}
	for _, r := range results {
		one, many := r.samples[0], r.samples[1]
		row := redisRow{
			Algorithm: r.algorithm, Name: r.name,
			P50: num(median(one, p50)), PerSecond: num(median(many, perSecond)), CPU: num(median(many, cpu)),
			Trips: num(r.trips), Sent: num(r.sent), Received: num(r.received), PerKey: num(r.perKey),
			Allocs: num(median(one, allocs)),
		}
		if !r.ours() {
			by := oursOf(results, r, false).ratios(r)
			row.ByP50, row.ByMany, row.ByCPU = &by[0], &by[1], &by[2]
		}
		if r.piped && !r.ours() {
			row.Piped = oursOf(results, r, true).ratios(r)
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// ratios returns time, time of many and CPU of a result by those of a rival.
func (r *redisResult) ratios(rival *redisResult) []num {
	one, many := rival.samples[0], rival.samples[1]
	return []num{
		num(ratioOf(r.samples[0], one, p50)), num(ratioOf(many, r.samples[1], perSecond)),
		num(ratioOf(r.samples[1], many, cpu)),
	}
}

// oursOf returns ours of the algorithm of a rival, with a pipeline or without one.
func oursOf(results []*redisResult, rival *redisResult, piped bool) *redisResult {
	for _, r := range results {
		if r.ours() && r.algorithm == rival.algorithm && r.piped == piped {
			return r
		}
	}
	return rival // there is no rival without ours: redisEntrants
}

// ratioOf returns the median over the rounds of a figure of a by that of b.
func ratioOf(a, b []sample, of func(sample) float64) float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = of(a[i]) / of(b[i])
	}
	return quantile(ratios, 0.5)
}

// redisTargets returns that ours takes one round trip, and is not slower than rivals.
func redisTargets(results []*redisResult) (all []target) {
	for _, r := range results {
		if r.ours() {
			trips := 1.0
			if r.algorithm == concurrent { // to take and to give back
				trips = 2
			}
			all = append(all, most("T15", r.algorithm+" on Redis: round trips of a call", r.trips, trips, ""))
			continue
		}
		// Who has many callers takes a pipeline, and who has one does not.
		one, many := oursOf(results, r, false), oursOf(results, r, r.piped)
		all = append(all,
			most("T15", r.algorithm+" on Redis: p50 of a lone caller by "+r.name,
				ratioOf(one.samples[0], r.samples[0], p50), 1+tolerance, ""),
			most("T15", r.algorithm+" on Redis: CPU of Redis per call, 64 callers, by "+r.name,
				ratioOf(many.samples[1], r.samples[1], cpu), 1+tolerance, ""))
	}
	return all
}

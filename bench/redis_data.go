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
	ByP50, ByMany, ByCPU  *num // this library, by it: time, time of many, CPU
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
		if o := oursOf(results, r); !r.ours() {
			row.ByP50 = given(ratioOf(o.samples[0], one, p50))
			row.ByMany = given(ratioOf(many, o.samples[1], perSecond))
			row.ByCPU = given(ratioOf(o.samples[1], many, cpu))
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

// oursOf returns ours of the algorithm of a rival, with a pipeline if that has one.
func oursOf(results []*redisResult, rival *redisResult) *redisResult {
	for _, r := range results {
		if r.ours() && r.algorithm == rival.algorithm && r.piped == rival.piped {
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
		o := oursOf(results, r)
		all = append(all,
			most("T15", r.algorithm+" on Redis: p50 of a lone caller by "+r.name,
				ratioOf(o.samples[0], r.samples[0], p50), 1+tolerance, ""),
			most("T15", r.algorithm+" on Redis: CPU of Redis per call, 64 callers, by "+r.name,
				ratioOf(o.samples[1], r.samples[1], cpu), 1+tolerance, ""))
	}
	return all
}

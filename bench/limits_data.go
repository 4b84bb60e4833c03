package main

import (
	"maps"
	"slices"
)

// A limitsData is what the page shows of the part limits.
type limitsData struct {
	Batches, Batch int // batches of so many calls
	Tables         []limitsTable
}

// A limitsTable has all kinds of calls in one state.
type limitsTable struct {
	Name, What string
	Rows       []limitsRow
}

// A limitsRow holds the medians of one kind of call.
type limitsRow struct {
	Name              string
	Redis             float64 // µs of the script
	ByAcquire         float64 // Redis by that of a plain TryAcquire
	ByAllow           float64 // and by that of a plain Allow
	P50               float64 // µs until a lone caller has its answer
	Trips             float64 // round trips
	Sent, Received    float64 // bytes
	Commands, GoAlloc float64
}

// shows reports whether a kind has a row in a table: no new user is refused.
func (k limitKind) shows(st state) bool { return !k.fresh || !st.refuses }

// data returns the medians of all batches.
func (l *limiting) data() *limitsData {
	d := &limitsData{Batches: len(l.results[0][0].samples), Batch: l.batch}
	for _, row := range l.results {
		t := limitsTable{Name: row[0].state.name, What: row[0].state.what}
		for i, res := range row {
			if !limitKinds[i].shows(res.state) {
				continue
			}
			of := func(figure func(costSample) float64) float64 { return median(res.samples, figure) }
			t.Rows = append(t.Rows, limitsRow{
				res.contestant, of(costRedis), byOther(row, i, plainAcquire), byOther(row, i, plainAllow),
				of(costP50), of(costTrips), of(func(s costSample) float64 { return s.sent }),
				of(func(s costSample) float64 { return s.received }),
				sum(slices.Collect(maps.Values(res.used.inside(res.scripts)))...), res.allocs,
			})
		}
		d.Tables = append(d.Tables, t)
	}
	return d
}

// byOther returns the Redis time of one kind by that of another one: the median
// of the ratios within a round.
func byOther(row []costResult, kind, other int) float64 {
	ratios := make([]float64, len(row[kind].samples))
	for i, s := range row[kind].samples {
		ratios[i] = s.redis / row[other].samples[i].redis
	}
	return quantile(ratios, 0.5)
}

// targets returns those of a user's limit and of two limits.
func (l *limiting) targets() (all []target) {
	for _, row := range l.results {
		ratio := func(what string, kind, other int, bound float64) {
			all = append(all, most("T10", row[0].state.name+": Redis time of "+what,
				byOther(row, kind, other), bound, ""))
		}
		ratio("a user's Allow by a plain TryAcquire", userAllow, plainAcquire, 1.3)
		ratio("two limits by one, TryAcquire", twoAcquire, plainAcquire, 1.7)
		ratio("two limits, Allow, by a plain TryAcquire", twoAllow, plainAcquire, 1.7)
	}
	trips := median(l.results[0][userAllow].samples, costTrips)
	return append(all, most("T10", "round trips of a user's Allow", trips, 1, ""))
}

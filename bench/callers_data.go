package main

import "strconv"

// A callersData is what the page and the pictures show of the part callers.
type callersData struct {
	Redis, Redisson string // versions
	Span, Warmup    string // of a batch
	Pool            string // how long a caller waits for a connection
	Interval        string // of the limiters
	Tables          []tableData
	Lone            []loneData // asked in turns
}

// A tableData is the table of one number of callers.
type tableData struct {
	Callers int
	Who     string
	Rows    []rowData
	Fail    string // why a contestant has no row
}

// A rowData holds the medians of one contestant. The units are those of sample.
type rowData struct {
	Name           string
	PerSecond      float64 // acquires
	P50, P99, P999 float64 // µs
	CPU, Script    float64 // µs of Redis per acquire
	Calls, Allocs  float64 // per acquire
}

// A loneData is what a call of a lone caller takes, in µs.
type loneData struct {
	Name     string
	P50, P99 float64
}

// data returns the medians over the rounds. A median of each figure by itself:
// the round with the median p50 need not be the one with the median p99.
func (r *callersResult) data() *callersData {
	d := &callersData{
		Redis: r.redis, Redisson: r.redisson,
		Span: span.String(), Warmup: warmup.String(), Pool: poolTimeout.String(), Interval: interval.String(),
	}
	for who := range alone + 1 {
		d.Lone = append(d.Lone, loneData{
			labels[who],
			median(r.turns, func(t []spread) float64 { return micros(t[who].p50) }),
			median(r.turns, func(t []spread) float64 { return micros(t[who].p99) }),
		})
	}
	for i := range r.tables {
		d.Tables = append(d.Tables, r.tables[i].data())
	}
	return d
}

// data returns the medians of one table.
func (t *table) data() tableData {
	d := tableData{Callers: t.callers, Who: callersText(t.callers)}
	for who, rows := range t.rows {
		if len(rows) == 0 {
			d.Fail = labels[who] + " could not do it: " + t.failed[who]
			continue
		}
		of := func(figure func(sample) float64) float64 { return median(rows, figure) }
		d.Rows = append(d.Rows, rowData{
			labels[who], of(perSecond), of(p50), of(p99), of(p999),
			of(cpu), of(script), of(calls), of(allocs),
		})
	}
	return d
}

// row returns the row of a contestant, nil if it has none.
func (d *tableData) row(who int) *rowData {
	for i := range d.Rows {
		if d.Rows[i].Name == labels[who] {
			return &d.Rows[i]
		}
	}
	return nil
}

// A speed is a row of the first table of the page.
type speed struct {
	Name      string
	PerSecond []string // by number of callers
}

// Speeds returns the first table: acquires a second of each contestant.
func (d *callersData) Speeds() (speeds []speed) {
	for _, who := range shown {
		s := speed{Name: labels[who]}
		for i := range d.Tables {
			text := "-" // it failed with so many callers
			if row := d.Tables[i].row(who); row != nil {
				text = figure(row.PerSecond)
			}
			s.PerSecond = append(s.PerSecond, text)
		}
		speeds = append(speeds, s)
	}
	return speeds
}

// A faster is a rival that did better than this library.
type faster struct {
	Who, Rival         string
	Theirs, Ours       float64 // acquires a second
	TheirCPU, OurCPU   float64 // µs of Redis per acquire
	MoreCalls, LessCPU bool    // in which of the two it did better
}

// Faster returns where a rival makes more acquires a second, or takes less CPU
// of Redis, by more than tolerance. It follows from the figures, so that the page
// cannot claim what a new run does not show.
func (d *callersData) Faster() (all []faster) {
	for i := range d.Tables {
		t := &d.Tables[i]
		own := t.row(ours)
		for _, who := range rivals {
			theirs := t.row(who)
			if own == nil || theirs == nil {
				continue
			}
			f := faster{
				t.Who, labels[who], theirs.PerSecond, own.PerSecond, theirs.CPU, own.CPU,
				theirs.PerSecond > own.PerSecond*(1+tolerance), theirs.CPU < own.CPU*(1-tolerance),
			}
			if f.MoreCalls || f.LessCPU {
				all = append(all, f)
			}
		}
	}
	return all
}

// rivals are the contestants that others have written.
var rivals = []int{redisson, rate, fixed}

// A reason says why a rival did better.
type reason struct{ Rival, Why string }

// Reasons returns the reasons of the rivals in Faster, each once.
func (d *callersData) Reasons() (all []reason) {
	won := map[string]bool{} // a rival may win with several numbers of callers
	for _, f := range d.Faster() {
		won[f.Rival] = true
	}
	for _, who := range rivals {
		if won[labels[who]] {
			all = append(all, reason{labels[who], reasons[who]})
		}
	}
	return all
}

// callersText returns "1 caller" or "64 callers".
func callersText(n int) string {
	if n == 1 {
		return strconv.Itoa(n) + " caller"
	}
	return thousands(float64(n)) + " callers"
}

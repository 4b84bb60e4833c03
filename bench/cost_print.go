package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// A column is one figure of the table.
type column struct {
	title, unit string
	format      string
	figure      func(costSample) float64
}

// columns are all figures that a batch gives. Commands and allocations follow
// them: they are counted over all batches.
var columns = []column{
	{"Redis", "µs", "%.1f", costRedis},
	{"p50", "µs", "%.0f", costP50},
	{"p99", "µs", "%.0f", func(s costSample) float64 { return s.p99 }},
	{"round", "trips", "%.3g", costTrips},
	{"bytes", "sent", "%.0f", func(s costSample) float64 { return s.sent }},
	{"bytes", "received", "%.0f", func(s costSample) float64 { return s.received }},
}

// The figures of a sample that ratios are made of.
func costRedis(s costSample) float64 { return s.redis }
func costP50(s costSample) float64   { return s.p50 }
func costTrips(s costSample) float64 { return s.trips }

// print writes all of it.
func (r *costReport) print(out io.Writer) error {
	var text strings.Builder
	r.head(&text)
	r.table(&text)
	r.ratios(&text)
	r.scripts(&text)
	_, err := io.WriteString(out, text.String())
	return err
}

// head writes what was measured and on what.
func (r *costReport) head(out io.Writer) {
	fmt.Fprintf(out, "What one call of tryAcquire(1) costs: Redis %s, %s, %s, %d CPUs\n",
		r.redis, r.results[0][costJava].contestant, runtime.Version(), runtime.NumCPU())
	fmt.Fprintf(out, "Medians of %d batches of %d calls by a lone caller, cold of %d\n\n",
		len(r.results[0][0].samples), r.plan.batch, r.plan.cold)
	for _, row := range r.results {
		fmt.Fprintf(out, "%-8s %s\n", row[0].state.name, row[0].state.what)
	}
	fmt.Fprint(out, `
floor    go-redis runs the script "return 1": its reply comes before the processor of the caller sleeps
bare     go-redis runs the script of rratelimiter: rratelimiter differs from it by its Go code only
`)
}

// table writes a line for each contestant in each state. A title takes two
// lines, so that a terminal of 100 columns has room for the table.
func (r *costReport) table(out io.Writer) {
	w := newTable(out)
	defer w.Flush()
	titles, units := "\n\t\t", "\t\t"
	for _, c := range columns {
		titles, units = titles+c.title+"\t", units+c.unit+"\t"
	}
	fmt.Fprintf(w, "%scommands\tGo\t\n%sin script\tallocs\t\n", titles, units)
	for _, row := range r.results {
		for _, res := range row {
			fmt.Fprintln(w, res.line())
		}
	}
}

// line returns a line of the table.
func (res costResult) line() string {
	line := res.state.name + "\t" + res.contestant + "\t"
	for _, c := range columns {
		line += fmt.Sprintf(c.format, median(res.samples, c.figure)) + "\t"
	}
	commands, allocs := "-", "-" // not counted: among noise, and in Java
	if res.scripts > 0 {
		commands = fmt.Sprintf("%.1f", sum(slices.Collect(maps.Values(res.used.inside(res.scripts)))...))
	}
	if res.allocs != noAllocs {
		allocs = fmt.Sprintf("%.0f", res.allocs)
	}
	return line + commands + "\t" + allocs + "\t"
}

// ratios writes the figures that a reader should keep in mind.
func (r *costReport) ratios(out io.Writer) {
	w := newTable(out)
	defer w.Flush()
	titles := "\n\t"
	for _, row := range r.results {
		titles += row[0].state.name + "\t"
	}
	fmt.Fprintln(w, titles)
	r.ratio(w, "Redis time, rratelimiter / Redisson", costOurs, costJava, costRedis)
	r.turnsRatio(w)
	r.ratio(w, "p50, rratelimiter / floor", costOurs, costFloor, costP50)
	r.ratio(w, "p50, Redisson / floor", costJava, costFloor, costP50)
	r.ratio(w, "p50, rratelimiter / bare", costOurs, costBare, costP50)
	r.ratio(w, "round trips, rratelimiter / Redisson", costOurs, costJava, costTrips)
}

// ratio writes a line with a figure of one contestant by that of another, for
// each state. Medians are divided, not samples: batches of contestants are not
// pairs here, as their order changes from round to round.
func (r *costReport) ratio(w io.Writer, title string, of, over int, figure func(costSample) float64) {
	line := title + "\t"
	for _, row := range r.results {
		line += fmt.Sprintf("%.2f\t", median(row[of].samples, figure)/median(row[over].samples, figure))
	}
	fmt.Fprintln(w, line)
}

// turnsRatio writes what a call takes by the floor where both ask in turns. It
// is less noisy than the ratio of batches, and its absolute figures mean less.
func (r *costReport) turnsRatio(w io.Writer) {
	line := "p50 in turns, rratelimiter / floor\t"
	for _, row := range r.results {
		line += fmt.Sprintf("%.2f\t", quantile(r.turns[row[0].state.name], 0.5))
	}
	fmt.Fprintln(w, line)
}

// scripts writes the commands inside one script.
func (r *costReport) scripts(out io.Writer) {
	fmt.Fprintln(out, "\nIn one script")
	for _, row := range r.results {
		for _, who := range []int{costOurs, costJava} {
			if res := row[who]; res.scripts > 0 {
				commands := times(res.used.inside(res.scripts))
				fmt.Fprintf(out, "%-8s %-15s %s\n", res.state.name, res.contestant, commands)
			}
		}
	}
}

// times returns the commands by name, as in "get, 3 hget, 0.08 set". A command
// that is hardly ever there belongs to a connection, not to the script.
func times(inside map[string]float64) string {
	var all []string
	for _, command := range slices.Sorted(maps.Keys(inside)) {
		switch often := fmt.Sprintf("%.2g", inside[command]); {
		case inside[command] < 0.005:
		case often == "1":
			all = append(all, command)
		default:
			all = append(all, often+" "+command)
		}
	}
	return strings.Join(all, ", ")
}

// newTable returns a writer that aligns columns to the right.
func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

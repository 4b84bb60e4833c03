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
	figure      func(sample) float64
}

var columns = []column{
	{"Redis", "µs", "%.1f", redisTime},
	{"p50", "µs", "%.0f", p50},
	{"p99", "µs", "%.0f", func(s sample) float64 { return s.p99 }},
	{"round", "trips", "%.3g", trips},
	{"bytes", "sent", "%.0f", func(s sample) float64 { return s.sent }},
	{"bytes", "received", "%.0f", func(s sample) float64 { return s.received }},
}

func redisTime(s sample) float64 { return s.redis }
func p50(s sample) float64       { return s.p50 }
func trips(s sample) float64     { return s.trips }

// print writes everything, for people.
func (r *report) print(out io.Writer) error {
	var text strings.Builder
	r.head(&text)
	r.table(&text)
	r.ratios(&text)
	r.scripts(&text)
	_, err := io.WriteString(out, text.String())
	return err
}

// head says what was measured and on what.
func (r *report) head(out io.Writer) {
	fmt.Fprintf(out, "What one call of tryAcquire(1) costs: Redis %s, %s, %s, %d CPUs\n",
		r.redis, r.results[0][javas].contestant, runtime.Version(), runtime.NumCPU())
	fmt.Fprintf(out, "Medians of %d batches of %d calls by a lone caller, cold of %d\n\n",
		len(r.results[0][0].samples), r.plan.batch, r.plan.cold)
	for _, row := range r.results {
		fmt.Fprintf(out, "%-8s %s\n", row[0].state.name, row[0].state.what)
	}
	fmt.Fprintln(out, "\nfloor    go-redis runs the script \"return 1\": so short that its caller may not have gone to sleep meanwhile")
	fmt.Fprintln(out, "bare     go-redis runs the script of rratelimiter: what lies between the two is the library's Go code")
}

// table writes a line for each contestant in each state.
func (r *report) table(out io.Writer) {
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

// line is a line of the table.
func (res result) line() string {
	line := res.state.name + "\t" + res.contestant + "\t"
	for _, c := range columns {
		line += fmt.Sprintf(c.format, median(res.samples, c.figure)) + "\t"
	}
	commands, allocs := "-", "-"
	if res.scripts > 0 {
		commands = fmt.Sprintf("%.1f", sum(res.used.inside(res.scripts)))
	}
	if res.allocs != noAllocs {
		allocs = fmt.Sprintf("%.0f", res.allocs)
	}
	return line + commands + "\t" + allocs + "\t"
}

// ratios writes what the table comes down to.
func (r *report) ratios(out io.Writer) {
	w := newTable(out)
	defer w.Flush()
	titles := "\n\t"
	for _, row := range r.results {
		titles += row[0].state.name + "\t"
	}
	fmt.Fprintln(w, titles)
	r.ratio(w, "Redis time, rratelimiter / Redisson", ours, javas, redisTime)
	r.inTurns(w)
	r.ratio(w, "p50, rratelimiter / floor", ours, floor, p50)
	r.ratio(w, "p50, Redisson / floor", javas, floor, p50)
	r.ratio(w, "p50, rratelimiter / bare", ours, bare, p50)
	r.ratio(w, "round trips, rratelimiter / Redisson", ours, javas, trips)
}

// ratio writes a line with a figure of one contestant over that of another.
func (r *report) ratio(w io.Writer, title string, of, over int, figure func(sample) float64) {
	line := title + "\t"
	for _, row := range r.results {
		line += fmt.Sprintf("%.2f\t", median(row[of].samples, figure)/median(row[over].samples, figure))
	}
	fmt.Fprintln(w, line)
}

// inTurns writes what a call takes over the floor where both ask in turns.
func (r *report) inTurns(w io.Writer) {
	line := "p50 in turns, rratelimiter / floor\t"
	for _, row := range r.results {
		line += fmt.Sprintf("%.2f\t", median(r.turns[row[0].state.name], turn.ratio))
	}
	fmt.Fprintln(w, line)
}

// scripts writes which commands a script consists of.
func (r *report) scripts(out io.Writer) {
	fmt.Fprintln(out, "\nIn one script")
	for _, row := range r.results {
		for _, who := range []int{ours, javas} {
			if res := row[who]; res.scripts > 0 {
				fmt.Fprintf(out, "%-8s %-15s %s\n", res.state.name, res.contestant, times(res.used.inside(res.scripts)))
			}
		}
	}
}

// times is the commands by name, as in "get, 3 hget, 0.08 set". One that is
// hardly ever there is a connection's own.
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

func sum(inside map[string]float64) (total float64) {
	for _, n := range inside {
		total += n
	}
	return total
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

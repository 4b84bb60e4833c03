package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A column is a figure of a crowd.
type column struct {
	head string
	in   int // the crowd, by its place in the scenario
	of   func(sample) float64
	best int // which figures are better
}

const less, neither, more = -1, 0, 1

// The figures of a sample, with the names that columns use.
func perSecond(s sample) float64 { return s.perSecond }
func p50(s sample) float64       { return s.p50 }
func p99(s sample) float64       { return s.p99 }
func cpu(s sample) float64       { return s.cpu }
func script(s sample) float64    { return s.script }
func calls(s sample) float64     { return s.calls }
func allocs(s sample) float64    { return s.allocs }

// findings are the samples of all turns: by row, crowd and round.
type findings struct {
	*env
	samples [][][]sample
	failed  [][]bool // by row and crowd
}

func newFindings(e *env) *findings {
	f := &findings{e, make([][][]sample, len(e.rows)), make([][]bool, len(e.rows))}
	for i := range e.rows {
		f.samples[i], f.failed[i] = make([][]sample, len(e.crowds)), make([]bool, len(e.crowds))
	}
	return f
}

// tolerance is by how much two contestants that do the same may differ: two runs of the same turn on a small
// machine do.
const tolerance = 0.1

// table returns a row for each contestant. A figure by which a rival is ahead is bold.
func (f *findings) table() table {
	t := table{{" "}}
	for _, c := range f.columns {
		t[0] = append(t[0], c.head)
	}
	for who, row := range f.rows {
		cells := []string{row.name}
		for _, c := range f.columns {
			cell := figure(median(f.of(who, c)))
			if row.rival && float64(c.best)*(1-f.ratio(who, c)) > tolerance {
				cell = "**" + cell + "**"
			}
			cells = append(cells, cell)
		}
		t = append(t, cells)
	}
	return t
}

// of returns the figures of a row, by round; none if it has failed.
func (f *findings) of(who int, c column) (values []float64) {
	if !f.failed[who][c.in] {
		for _, s := range f.samples[who][c.in] {
			values = append(values, c.of(s))
		}
	}
	return values
}

// ratio returns the median over the rounds of the figure of the first row by that of another.
func (f *findings) ratio(by int, c column) float64 {
	ratios, others := f.of(0, c), f.of(by, c)
	if len(others) == 0 {
		return math.NaN()
	}
	for i := range ratios {
		ratios[i] /= others[i]
	}
	return median(ratios)
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the least value that a part of all values, 0 to 1, does not exceed, NaN if there are none.
func quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(1, int(math.Ceil(part*float64(len(values)))))-1]
}

// A table is its head and its rows.
type table [][]string

// String returns the table as Markdown has it: names at the left, figures at the right.
func (t table) String() string {
	var b strings.Builder
	for i, row := range t {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
	}
	return strings.ReplaceAll(b.String(), "|   |", "| |")
}

// figure prints a value with three digits that count, or as a whole number from 1,000 to 100,000, with commas
// between the thousands.
func figure(v float64) string {
	abs := math.Abs(v)
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "-"
	case abs < 1000 || abs >= 1e5:
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // valid: it was just formatted
	default:
		v = math.Round(v)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	for i := len(s) - 3; math.Abs(v) >= 1000 && i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// machineTable is the table of what all others were measured on.
const machineTable = "machine"

// when returns the line below a table. Each table has one, because a run may measure a single scenario.
func (b *bench) when() string {
	load, _ := os.ReadFile("/proc/loadavg")
	busy, _, _ := strings.Cut(string(load)+" unknown", " ")
	return fmt.Sprintf("%s, load %s.\n", time.Now().UTC().Format("2 January 2006"), busy)
}

// machine returns the machine and the versions. Figures of two machines cannot be compared; their ratios can,
// roughly.
func (b *bench) machine() table {
	redisson := ""
	if b.peer != nil {
		redisson = "Redisson " + b.peer.Version() + ", "
	}
	info, _ := os.ReadFile("/proc/cpuinfo") // other systems than Linux do not have it
	_, model, _ := strings.Cut(string(info), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	return table{
		{"machine", fmt.Sprintf("%d cores (%s), shared by Redis and its clients", runtime.NumCPU(), model)},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()},
		{"Redis", b.redis + ", one server on the same machine, over TCP, nothing kept on disk"},
		{"libraries", redisson + versions()},
	}
}

// versions returns the versions of the libraries that this program is built with. A test does not know them.
func versions() string {
	names := []string{
		"redis/go-redis", "go-redis/redis_rate", "ulule/limiter", "redis/rueidis",
		"redis/rueidis/rueidislimiter", "bsm/redislock", "go-redsync/redsync",
	}
	var all []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			path, _, _ := strings.Cut(dep.Path, "/v")
			if name := strings.TrimPrefix(path, "github.com/"); slices.Contains(names, name) {
				all = append(all, name+" "+strings.TrimPrefix(dep.Version, "v"))
			}
		}
	}
	return strings.Join(all, ", ")
}

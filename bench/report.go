package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"

	_ "embed"
)

// A report is what a run measured. It is stored beside the page, so that a change of the text needs no new
// measurement.
type report struct {
	Date    string // of the start, in UTC
	Took    string // as a duration
	Rounds  int
	Machine machine

	// Parts are the findings by the name of the part. They stay JSON: the page reads the same values whether
	// they are new or stored.
	Parts   map[string]json.RawMessage
	Targets []target // by ID and part

	// Later are the days of the parts that were measured after the others (-keep).
	Later map[string]string `json:",omitempty"`
}

const figuresFile = "benchmarks.json"

func newReport(rounds int) *report {
	return &report{
		Date: time.Now().UTC().Format("2 January 2006"), Rounds: rounds, Machine: thisMachine(),
		Parts: map[string]json.RawMessage{},
	}
}

// measure runs one part in a scope of its own and keeps what it found.
func (r *report) measure(ctx context.Context, o options, p *part) (err error) {
	s := &scope{rounds: o.rounds, brief: o.brief}
	// Servers fail a part by a panic, which End makes an error.
	defer func() { s.End(recover(), &err) }()
	found := p.measure(ctx, s)
	r.Parts[p.name], err = json.Marshal(found.data)
	for _, t := range found.targets {
		t.Part = p.name
		r.Targets = append(r.Targets, t)
	}
	r.sortTargets()
	return err
}

// sortTargets sorts the targets, T2 before T10. Those of a part stay in the order in which it names them.
func (r *report) sortTargets() {
	place := func(t target) int {
		return slices.IndexFunc(parts, func(p *part) bool { return p.name == t.Part })
	}
	slices.SortStableFunc(r.Targets, func(a, b target) int {
		return cmp.Or(
			cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID), cmp.Compare(place(a), place(b)))
	})
}

// into returns the report of the last run with the findings of r in place of its own. Both must be of one
// machine: ratios of two are no ratios.
func (r *report) into(docs string) (*report, error) {
	all, err := loadReport(docs)
	if err != nil {
		return nil, err
	}
	now := r.Machine
	now.Load = all.Machine.Load // it differs from run to run
	if now != all.Machine {
		return nil, fmt.Errorf("the last run was on another machine: %+v, not %+v", all.Machine, now)
	}
	all.Targets = slices.DeleteFunc(all.Targets, func(t target) bool { return r.Parts[t.Part] != nil })
	all.Targets = append(all.Targets, r.Targets...)
	all.sortTargets()
	if all.Later == nil {
		all.Later = map[string]string{}
	}
	for name, found := range r.Parts {
		all.Parts[name], all.Later[name] = found, r.Date
	}
	return all, nil
}

func loadReport(docs string) (*report, error) {
	text, err := os.ReadFile(filepath.Join(docs, figuresFile))
	if err != nil {
		return nil, err
	}
	r := new(report)
	return r, json.Unmarshal(text, r)
}

// redraw writes the pages and pictures from the figures of the last run.
func redraw(docs string) error {
	r, err := loadReport(docs)
	if err != nil {
		return err
	}
	return r.publish(io.Discard, docs)
}

// publish prints the pages and, if docs is not empty, writes them there with their figures and pictures.
func (r *report) publish(out io.Writer, docs string) error {
	pages, err := r.pages()
	if err != nil {
		return err
	}
	for _, page := range pages {
		if _, err := io.WriteString(out, page.text); err != nil {
			return err
		}
	}
	if docs == "" {
		return nil
	}
	figures, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	// The figures come first: if a page cannot be written they are not lost.
	for _, f := range append([]page{{figuresFile, string(figures) + "\n"}}, pages...) {
		if err := os.WriteFile(filepath.Join(docs, f.file), []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	if err := r.drawLeases(docs); err != nil {
		return err
	}
	d, err := r.Callers()
	if err != nil || d == nil {
		return err
	}
	for _, p := range pictures {
		if err := p.chart(d).save(docs); err != nil {
			return err
		}
	}
	return nil
}

//go:embed report.md
var reportText string

//go:embed comparison.md
var comparisonText string

type page struct{ file, text string }

// pages returns all pages that the parts which ran are for.
func (r *report) pages() ([]page, error) {
	text, err := r.markdown(reportText)
	all := []page{{"benchmarks.md", text}}
	for _, name := range []string{"algorithms-memory", "algorithms-redis"} {
		if err != nil || r.Parts[name] == nil {
			return all, err
		}
	}
	text, err = r.markdown(comparisonText)
	return append(all, page{"comparison.md", text}), err
}

// markdown returns the text of a page. A name in it that no figure has is an error, not an empty cell.
func (r *report) markdown(text string) (string, error) {
	t, err := template.New("page").Option("missingkey=error").Funcs(template.FuncMap{
		"part": r.part, "figure": figureOf, "thousands": thousands, "count": count,
		"date": func(name string) string { return cmp.Or(r.Later[name], r.Date) },
		"yes":  func(met bool) string { return map[bool]string{true: "yes", false: "no"}[met] },
	}).Parse(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, r)
	return b.String(), err
}

// part returns the finding of a part as JSON has it, nil if it did not run.
func (r *report) part(name string) (found any, err error) {
	if raw, ok := r.Parts[name]; ok {
		err = json.Unmarshal(raw, &found)
	}
	return found, err
}

// Callers returns the finding of the part callers, nil if it did not run. The pictures and the head of the
// page show it as well.
func (r *report) Callers() (d *callersData, err error) {
	if raw, ok := r.Parts["callers"]; ok {
		err = json.Unmarshal(raw, &d)
	}
	return d, err
}

// Met returns how many targets are met.
func (r *report) Met() (n int) {
	for _, t := range r.Targets {
		if t.Met {
			n++
		}
	}
	return n
}

// A target is a figure that the library should reach, and the one it reached.
type target struct {
	ID, What    string
	Wanted, Got string
	Met         bool
	Part        string // that measured it
}

// most is a target that a figure up to bound meets. unit follows both figures. NaN is a figure that a
// contestant has failed to show.
func most[N ~float64](id, what string, value N, bound float64, unit string) target {
	v := float64(value)
	t := target{
		ID: id, What: what, Wanted: "at most " + figure(bound) + unit, Got: figure(v) + unit, Met: v <= bound,
	}
	if v != v {
		t.Got = "not measured"
	}
	return t
}

// least is a target that a figure from bound on meets.
func least[N ~float64](id, what string, value N, bound float64, unit string) target {
	t := most(id, what, value, bound, unit)
	t.Wanted, t.Met = "at least "+figure(bound)+unit, float64(value) >= bound
	return t
}

// tolerance is by how much two contestants that do the same may differ: two runs of the same batch on a small
// machine do.
const tolerance = 0.1

// A machine is what a run was measured on. Figures of two machines cannot be compared; their ratios can,
// roughly.
type machine struct {
	Cores                       int
	CPU, System, Go             string
	Load                        string // average of a minute before the start: what else the machine does
	GoRedis, RedisRate, Rueidis string // versions: rivals become faster, too
}

func thisMachine() machine {
	m := machine{
		Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		CPU: fieldOf("/proc/cpuinfo", "model name"), Load: "unknown",
		GoRedis:   moduleVersion("github.com/redis/go-redis/v9"),
		RedisRate: moduleVersion("github.com/go-redis/redis_rate/v10"),
		Rueidis:   moduleVersion("github.com/redis/rueidis"),
	}
	if name := fieldOf("/etc/os-release", "PRETTY_NAME"); name != "" {
		m.System = strings.Trim(name, `"`) + ", " + m.System
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	return m
}

// modules are the libraries that the page of comparison names.
var modules = map[string]string{
	"XTime":         "golang.org/x/time",
	"XSync":         "golang.org/x/sync",
	"Uber":          "go.uber.org/ratelimit",
	"Failsafe":      "github.com/failsafe-go/failsafe-go",
	"GoLimiter":     "github.com/sethvargo/go-limiter",
	"Ulule":         "github.com/ulule/limiter/v3",
	"Throttled":     "github.com/throttled/throttled/v2",
	"Httprate":      "github.com/go-chi/httprate",
	"HttprateRedis": "github.com/go-chi/httprate-redis",
	"RedisRate":     "github.com/go-redis/redis_rate/v10",
	"Rueidis":       "github.com/redis/rueidis/rueidislimiter",
}

// moduleVersion returns the version of a module that this program is built with. A test binary does not know
// it.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == path {
				return dep.Version
			}
		}
	}
	return "of an unknown version"
}

// fieldOf returns the first value of a field, and "" if there is none: other systems than Linux do not have
// these files.
func fieldOf(file, field string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		// cpuinfo has "name : value", os-release has NAME=value.
		name, value, _ := strings.Cut(strings.Replace(line, "=", ":", 1), ":")
		if strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// A picture shows one figure by number of callers, a curve for each contestant.
type picture struct {
	file, Title, Axis, Across string
	figure                    func(sample) num
}

// pictures are those of the page. Both axes are logarithmic: callers grow by eight from column to column, and
// contestants differ by a factor of fifty.
var pictures = []picture{
	{"bench-throughput", "Acquires per second", "per second, more is better", "callers", perSecond},
	{"bench-latency", "Latency, p99", "µs, less is better", "callers", p99},
	{"bench-cpu", "CPU of Redis per acquire", "µs, less is better", "callers", cpu},
}

const (
	circle   = "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0"
	square   = "M-4,-4h8v8h-8z"
	triangle = "M0,-5l5,9h-10z"
	cross    = "M-4,-4l8,8M4,-4l-8,8"
)

// strokes are how the contestants are drawn: in colours that colour-blind readers can tell apart (Okabe and
// Ito), each with a mark of its own.
var strokes = [contestants]curve{
	floor:    {Color: "#777777", Fill: "none", Mark: cross, Width: 1.2},
	ours:     {Color: "#d55e00", Fill: "#d55e00", Mark: circle, Width: 3},
	alone:    {Color: "#e69f00", Fill: "#ffffff", Mark: circle, Width: 1.6},
	redisson: {Color: "#0072b2", Fill: "#ffffff", Mark: square, Width: 1.6},
	rate:     {Color: "#009e73", Fill: "#ffffff", Mark: triangle, Width: 1.6},
	fixed:    {Color: "#cc79a7", Fill: "#cc79a7", Mark: triangle, Width: 1.6},
}

type curve struct {
	Color, Fill, Mark, Label string
	Width, Row               num // Row: of the legend, beside the chart, where it hides no curve
	Points                   []string
}

type tick struct {
	At    num
	Label string
}

//go:embed picture.svg
var pictureText string

// A chart is a picture with all that is drawn.
type chart struct {
	picture
	Columns, Lines []tick
	Curves         []curve
}

func (c *chart) save(docs string) error {
	var b bytes.Buffer
	if err := template.Must(template.New(c.file).Parse(pictureText)).Execute(&b, c); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, c.file+".svg"), b.Bytes(), 0o644)
}

// chart draws the figures by number of callers.
func (p picture) chart(d *callersData) *chart {
	all := &chart{picture: p}
	low, high := num(math.Inf(1)), num(0)
	for i := range d.Tables {
		for _, r := range d.Tables[i].Rows {
			if v := p.figure(r.sample); v > 0 { // a logarithm has no 0
				low, high = min(low, v), max(high, v)
			}
		}
	}
	// No curve touches the frame.
	from, to := math.Log10(float64(low/1.6)), math.Log10(float64(high*1.6))
	y := func(v num) num { return num(math.Round(380 - 340*(math.Log10(float64(v))-from)/(to-from))) }
	x := func(i int) num { return num(100 + 430*i/max(1, len(d.Tables)-1)) }
	for i, t := range d.Tables {
		all.Columns = append(all.Columns, tick{x(i), thousands(float64(t.Callers))})
	}
	for e := math.Ceil(from); e <= to; e++ {
		v := num(math.Pow(10, e))
		all.Lines = append(all.Lines, tick{y(v), figureOf(v)})
	}
	for row, who := range shown {
		c := strokes[who]
		c.Label, c.Row = labels[who], num(60+24*row)
		for i := range d.Tables {
			if v := p.figure(d.Tables[i].figures(who)); v > 0 {
				c.Points = append(c.Points, fmt.Sprintf("%v,%v", x(i), y(v)))
			}
		}
		if len(c.Points) > 0 {
			all.Curves = append(all.Curves, c)
		}
	}
	return all
}

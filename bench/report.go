package main

import (
	"bytes"
	"os"
	"path/filepath"
	"text/template"
	"time"

	_ "embed"
)

// A report is all that was measured; what was not is nil.
type report struct {
	plan    plan
	started time.Time
	took    time.Duration
	machine machine

	callers  *callersResult
	waiters  *waitersResult
	bytes    *bytesResult
	expiries []expiryResult
	wake     *wakeResult
	allocs   *allocsResult
	idle     *idleResult
	beside   *besideResult
}

//go:embed report.md
var reportText string

// markdown returns the text of docs/benchmarks.md.
func (r *report) markdown() string {
	functions := template.FuncMap{
		"figure": figure, "thousands": thousands,
		"intThousands": func(n int) string { return thousands(float64(n)) },
		"worst":        func(ms []float64) float64 { return quantile(ms, 1) },
		"median":       func(ms []float64) float64 { return quantile(ms, 0.5) },
	}
	t := template.Must(template.New("").Funcs(functions).Parse(reportText))
	var b bytes.Buffer
	if err := t.Execute(&b, r.view()); err != nil {
		panic(err) // the template does not fit the view, which the tests find
	}
	return b.String()
}

// A view is what the template sees.
type view struct {
	Date, Took, CPU, System, Go, Load, Redis, Redisson string
	GoRedis, RedisRate, Rueidis                        string
	Cores, Rounds, Counts                              int
	Met, Targets                                       int
	Span, Warmup, Pool, Interval                       time.Duration
	All                                                []targetView
	Tables                                             []tableView
	Waits                                              []waitView
	Footprints                                         []footprintView
	Expiries                                           []expiryView
	Records                                            int
	Wakes                                              int
	WakeP50, WakeP99                                   float64
	Idle                                               *idleView
	Lone                                               []loneView
	Beside                                             *besideView
}

type targetView struct{ ID, What, Wanted, Got, Met string }

type tableView struct {
	Who  string
	Rows []rowView
	Fail string
}

type rowView struct{ Name, PerSecond, P50, P99, P999, CPU, Script, Calls, Allocs string }

type waitView struct {
	Name                                   string
	Calls, Early, Typical, Late, RoundTrip float64
}

type footprintView struct {
	Name                             string
	Permits, Records, Bytes, Percall float64
}

type expiryView struct {
	Newer int
	Asked string
	Ms    []float64
}

type idleView struct {
	Names         int
	Before, After float64
}

type loneView struct {
	Name     string
	P50, P99 float64
}

func (r *report) view() *view {
	m := &r.machine
	v := &view{
		Date: r.started.UTC().Format("2 January 2006"), Took: r.took.Round(time.Second).String(),
		CPU: m.cpu, System: m.system, Go: m.golang, Load: m.load, Cores: m.cores,
		GoRedis: m.version("github.com/redis/go-redis/v9"), RedisRate: m.version("github.com/go-redis/redis_rate/v10"),
		Rueidis: m.version("github.com/redis/rueidis"),
		Rounds:  r.plan.rounds, Span: r.plan.span, Warmup: r.plan.warmup, Pool: poolTimeout, Interval: interval,
		Records: r.plan.records, Wakes: r.plan.wakes,
	}
	for _, t := range r.targets() {
		met := "no"
		if v.Targets++; t.met {
			v.Met++
			met = "yes"
		}
		v.All = append(v.All, targetView{t.id, t.what, t.wanted, t.got, met})
	}
	if r.callers != nil {
		v.Redis, v.Redisson = r.callers.redis, r.callers.redisson
		v.viewCallers(r.callers)
	}
	if w := r.waiters; w != nil {
		for i, name := range []string{"in bursts", "evenly"} {
			m := w.median(i == 1)
			v.Waits = append(v.Waits, waitView{name, m.calls, m.early, m.typical, m.late, m.roundTrip})
		}
	}
	if b := r.bytes; b != nil {
		v.Footprints = []footprintView{b.plain.view("a record for each permit"),
			b.merged.view("resolution of a thousandth of the window")}
	}
	for _, e := range r.expiries {
		v.Expiries = append(v.Expiries, expiryView{e.newer, e.asked, e.ms})
	}
	if r.wake != nil {
		v.WakeP50, v.WakeP99 = r.wake.p50, r.wake.p99
	}
	if i := r.idle; i != nil {
		v.Idle = &idleView{i.names, i.before, i.after}
	}
	if r.beside != nil {
		v.Beside = r.beside.view(r.plan)
	}
	return v
}

func (m *machine) version(module string) string {
	if version := m.versions[module]; version != "" {
		return version
	}
	return "of an unknown version"
}

func (f footprint) view(name string) footprintView {
	return footprintView{name, float64(f.permits), float64(f.records), float64(f.bytes), f.perPermit()}
}

func (v *view) viewCallers(r *callersResult) {
	for who := range alone + 1 {
		v.Lone = append(v.Lone, loneView{
			labels[who],
			median(r.turns, func(t turn) float64 { return t.p50[who] }),
			median(r.turns, func(t turn) float64 { return t.p99[who] }),
		})
	}
	for i := range r.tables {
		t := &r.tables[i]
		view := tableView{Who: t.who()}
		for who, rows := range t.rows {
			if len(rows) == 0 {
				view.Fail = labels[who] + " could not do it: " + t.failed[who]
				continue
			}
			of := func(f func(sample) float64) string { return figure(median(rows, f)) }
			row := rowView{labels[who], of(perSecond), of(p50), of(p99), of(p999), of(cpu), of(script), of(calls), of(allocs)}
			if rows[0].allocs == noAllocs {
				row.Allocs = "-"
			}
			view.Rows = append(view.Rows, row)
		}
		v.Tables = append(v.Tables, view)
	}
}

// write writes the report and its pictures.
func (r *report) write(docs, text string) error {
	if err := os.WriteFile(filepath.Join(docs, "benchmarks.md"), []byte(text), 0o644); err != nil {
		return err
	}
	if r.callers == nil {
		return nil
	}
	for _, p := range pictures {
		if err := p.save(r.callers, filepath.Join(docs, p.file+".svg")); err != nil {
			return err
		}
	}
	return nil
}

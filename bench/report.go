package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/template"
	"time"

	_ "embed"
)

// A report is what a run measured. It is stored beside the page, so that a
// change of the text needs no new measurement.
type report struct {
	Date    string // of the start, in UTC
	Took    string // as a duration
	Rounds  int
	Machine machine

	// Parts are the findings by the name of the part. They stay JSON: the page
	// reads the same values whether they are new or stored.
	Parts   map[string]json.RawMessage
	Targets []target // by ID and part

	// Later are the days of the parts that were measured after the others (-keep).
	Later map[string]string `json:",omitempty"`
}

// The names of the files in docs.
const (
	pageFile       = "benchmarks.md"   // for people
	comparisonFile = "comparison.md"   // for people who choose
	figuresFile    = "benchmarks.json" // for redraw
)

// newReport returns a report without findings.
func newReport(start time.Time, rounds int) *report {
	return &report{
		Date: start.UTC().Format("2 January 2006"), Rounds: rounds, Machine: thisMachine(),
		Parts: map[string]json.RawMessage{},
	}
}

// measure runs one part in a scope of its own and keeps what it found.
func (r *report) measure(ctx context.Context, out io.Writer, o options, p *part) (err error) {
	s := &scope{out: out, rounds: o.rounds, brief: o.brief}
	// Servers fail a part by a panic, which End makes an error.
	defer func() { s.End(recover(), &err) }()
	found, err := p.measure(ctx, s)
	if err != nil || found.data == nil {
		return err
	}
	r.Parts[p.name], err = json.Marshal(found.data)
	for _, t := range found.targets {
		t.Part = p.name
		r.Targets = append(r.Targets, t)
	}
	r.sortTargets()
	return err
}

// sortTargets sorts the targets, T2 before T10. Those of a part stay in the order
// in which it names them.
func (r *report) sortTargets() {
	place := func(t target) int {
		return slices.IndexFunc(parts, func(p *part) bool { return p.name == t.Part })
	}
	slices.SortStableFunc(r.Targets, func(a, b target) int {
		return cmp.Or(
			cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID), cmp.Compare(place(a), place(b)))
	})
}

// into returns the report of the last run with the findings of r in place of its
// own. Both must be of one machine: ratios of two are no ratios.
func (r *report) into(docs string) (*report, error) {
	all, err := loadReport(docs)
	if err != nil {
		return nil, err
	}
	if now := r.Machine.withLoadOf(all.Machine); now != all.Machine {
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

// publish prints the page and, if docs is not empty, writes it there with its
// figures and its pictures.
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
	// The figures come first: if the page cannot be written they are not lost.
	if err := os.WriteFile(filepath.Join(docs, figuresFile), append(figures, '\n'), 0o644); err != nil {
		return err
	}
	return r.write(docs, pages)
}

// write writes pages and, if the part callers ran, their pictures.
func (r *report) write(docs string, pages []page) error {
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(docs, page.file), []byte(page.text), 0o644); err != nil {
			return err
		}
	}
	d, err := r.Callers()
	if err != nil || d == nil {
		return err
	}
	for _, p := range pictures {
		if err := p.save(d, filepath.Join(docs, p.file+".svg")); err != nil {
			return err
		}
	}
	return nil
}

// redraw writes the page and its pictures from the figures of the last run.
func redraw(docs string) error {
	r, err := loadReport(docs)
	if err != nil {
		return err
	}
	pages, err := r.pages()
	if err != nil {
		return err
	}
	return r.write(docs, pages)
}

// loadReport reads the figures of the last run.
func loadReport(docs string) (*report, error) {
	text, err := os.ReadFile(filepath.Join(docs, figuresFile))
	if err != nil {
		return nil, err
	}
	r := new(report)
	return r, json.Unmarshal(text, r)
}

//go:embed report.md
var reportText string

//go:embed comparison.md
var comparisonText string

// A page is one that a run writes.
type page struct{ file, text string }

// pages returns all pages that the parts which ran are for.
func (r *report) pages() (all []page, err error) {
	text, err := r.markdown(reportText)
	all = append(all, page{pageFile, text})
	compared := func(p *part) bool { return r.Parts[p.name] != nil }
	if err == nil && compared(memoryPart) && compared(redisPart) && compared(rulesPart) {
		text, err = r.markdown(comparisonText)
		all = append(all, page{comparisonFile, text})
	}
	return all, err
}

// dateOf returns the day on which a part was measured.
func (r *report) dateOf(name string) string { return cmp.Or(r.Later[name], r.Date) }

// markdown returns the text of a page. A name in it that no figure has is an error, not
// an empty cell.
func (r *report) markdown(text string) (string, error) {
	t, err := template.New("page").Option("missingkey=error").Funcs(template.FuncMap{
		"part": r.part, "date": r.dateOf, "figure": figureOf, "thousands": thousands, "count": count,
		"yes": func(met bool) string { return map[bool]string{true: "yes", false: "no"}[met] },
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
	raw, ok := r.Parts[name]
	if !ok {
		return nil, nil
	}
	err = json.Unmarshal(raw, &found)
	return found, err
}

// Callers returns the finding of the part callers, nil if it did not run. The
// pictures and the head of the page show it as well.
func (r *report) Callers() (*callersData, error) {
	raw, ok := r.Parts[callersPart.name]
	if !ok {
		return nil, nil
	}
	d := new(callersData)
	return d, json.Unmarshal(raw, d)
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

// figureOf prints a figure as JSON has it: nil is one that is not finite.
func figureOf(v any) string {
	if f, ok := v.(float64); ok {
		return figure(f)
	}
	return "-"
}

// count prints a count that is noAllocs where none was taken.
func count(v float64) string {
	if v < 0 {
		return "-"
	}
	return figure(v)
}

package main

import (
	"slices"
	"strings"
	"testing"
)

// judgedInBrief returns the table of all limiters, measured in brief.
func judgedInBrief(t *testing.T) *rulesData {
	t.Helper()
	needs(t, "redis-server")
	s := scope{brief: true}
	var d *rulesData
	var err error
	func() {
		defer func() { s.End(recover(), &err) }()
		var found finding
		if found, err = measureRules(t.Context(), &s); err == nil {
			d = found.data.(*rulesData)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What is known of other libraries is found, and ours in memory keep all rules. Those on
// Redis are checked by the packages themselves, on a machine that may be busy.
func TestRulesAreFound(t *testing.T) {
	d := judgedInBrief(t)
	if d.Ours != 2*len(natives) {
		t.Errorf("%d limiters of ours, want %d", d.Ours, 2*len(natives))
	}
	for _, b := range d.Broken {
		if strings.Contains(b, "in memory") {
			t.Error(b)
		}
	}
	for _, known := range []struct{ rival, rule, mark string }{
		{"ulule/limiter", "several permits are granted all or none", breaks}, // a refusal is charged
		{"ulule/limiter on Redis", "several permits are granted all or none", breaks},
		{"rueidislimiter", "several permits are granted all or none", breaks},
		{"throttled", "several permits are granted all or none", keeps},
		{"x/time/rate", "n below 1 is an ErrInvalidArgument and takes nothing", breaks},
		{"x/time/rate", "a refusal takes nothing", keeps},
		{"x/time/rate", "a context that has ended takes nothing", untold},
		{"x/time/rate", "keys do not know of each other", untold},
		{"failsafe-go, bursty", "Remaining is what is left", untold},
		{"failsafe-go, bursty", "the rate is granted at once, and no more", keeps},
		{"httprate", "after ResetAfter all permits are there", breaks}, // the window before counts
		{"redis_rate", "a context that has ended takes nothing", keeps},
		{"redis_rate", "n above the rate is an ErrPermitsExceedRate and takes nothing", breaks},
		{"go-limiter", "an empty key is an ErrInvalidArgument", breaks},
	} {
		if got := d.mark(t, known.rival, known.rule); got != known.mark {
			t.Errorf("%s: %s: %q, want %q: %s", known.rival, known.rule, got, known.mark,
				d.Why[known.rival][known.rule])
		}
	}
	for rule := range aboutWhat {
		if !slices.ContainsFunc(d.Rows, func(r rulesRow) bool { return r.Rule == rule }) {
			t.Errorf("package limittest has no rule %q", rule)
		}
	}
}

// mark returns the mark of a rival.
func (d *rulesData) mark(t *testing.T, rival, rule string) string {
	t.Helper()
	column := slices.Index(d.Rivals, rival)
	for _, row := range d.Rows {
		if row.Rule == rule && column >= 0 {
			return row.Marks[column]
		}
	}
	t.Fatalf("no row %q or no column %q", rule, rival)
	return ""
}

func TestRulesData(t *testing.T) {
	d := rulesDataOf([]judgement{
		{Name: "ours", Ours: true, Rules: []ruling{{"one", keeps, ""}, {"two", breaks, "why"}}},
		{Name: "theirs", Rules: []ruling{{"two", breaks, "because"}}},
	})
	if d.Ours != 1 || !slices.Equal(d.Broken, []string{"ours: two: why"}) || d.Why["theirs"]["two"] != "because" {
		t.Errorf("%+v", d)
	}
	if len(d.Rows) != 2 || d.mark(t, "theirs", "one") != untold || d.mark(t, "theirs", "two") != breaks {
		t.Errorf("rows %+v", d.Rows)
	}
	if all := d.targets(); len(all) != 1 || all[0].Met {
		t.Errorf("targets %+v", all)
	}
}

// A mark says whether a limiter can be asked, before it says what came of it.
func TestTells(t *testing.T) {
	for rule, needed := range aboutWhat {
		if needed == 0 || needed&^tellsAll != 0 {
			t.Errorf("%q is about %b", rule, needed)
		}
	}
	for _, j := range allJudged() {
		if (j.keyed == nil) == (j.lone == nil) || j.ours && j.tells != tellsAll {
			t.Errorf("%+v", j)
		}
	}
}

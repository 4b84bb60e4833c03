package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// With -keep a part replaces its own figures and targets, and nothing else.
func TestKeep(t *testing.T) {
	needs(t, "redis-server")
	docs := t.TempDir()
	before, err := loadReport("../docs")
	if err != nil {
		t.Fatal(err)
	}
	before.Machine.Cores++
	if err := before.publish(new(strings.Builder), docs); err != nil {
		t.Fatal(err)
	}
	o := brief(docs)
	o.keep = true
	// Figures of another machine are not mixed with those of this one.
	if err := run(t.Context(), new(strings.Builder), o, []string{"allocs"}); err == nil {
		t.Fatal("the figures of two machines are on one page")
	}
	before.Machine = thisMachine()
	before.Targets[0].Got = "before"
	if err := before.publish(new(strings.Builder), docs); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), new(strings.Builder), o, []string{"allocs", "middleware"}); err != nil {
		t.Fatal(err)
	}
	after, err := loadReport(docs)
	if err != nil {
		t.Fatal(err)
	}
	if after.Later["allocs"] == "" || after.Later["callers"] != before.Later["callers"] {
		t.Errorf("measured later: %v", after.Later)
	}
	of := func(r *report, part string) []target {
		return slices.DeleteFunc(slices.Clone(r.Targets), func(t target) bool { return t.Part != part })
	}
	if got, want := of(after, "callers"), of(before, "callers"); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("targets of another part: %v, want %v", got, want)
	}
	if got := of(after, "allocs"); len(got) != 1 {
		t.Errorf("targets of the part: %v", got)
	}
	if after.Targets[0].Got != "before" {
		t.Errorf("first target: %+v", after.Targets[0])
	}
	if page := pagesFrom(t, docs)[0].text; !strings.Contains(page, "allocs on "+after.Later["allocs"]) {
		t.Error("the page does not say when the part was measured")
	}
}

// T2 comes before T10, and the targets of a part stay together.
func TestTargetsInOrder(t *testing.T) {
	r := &report{Targets: []target{
		{ID: "T10", Part: "limits"}, {ID: "T5", Part: "expiry"},
		{ID: "T2", Part: "callers"}, {ID: "T5", Part: "bytes"},
	}}
	r.sortTargets()
	var got []string
	for _, one := range r.Targets {
		got = append(got, one.ID+" "+one.Part)
	}
	if want := []string{"T2 callers", "T5 bytes", "T5 expiry", "T10 limits"}; !slices.Equal(got, want) {
		t.Errorf("order %v", got)
	}
}

// All users can come, and with Zipf the first one comes most often.
func TestVisits(t *testing.T) {
	users := make([]string, 10)
	for _, c := range crowdsOf {
		counts := make([]int, len(users))
		for _, user := range newVisits(c, users, 10_000).order {
			counts[user]++
		}
		if slices.Min(counts) == 0 {
			t.Errorf("%s: %v", c.name, counts)
		}
	}
	draw := crowdsOf[1].draw(rand.New(rand.NewPCG(1, 1)), 100_000)
	first := 0
	for range 1000 {
		if draw() == 0 {
			first++
		}
	}
	if first < 50 {
		t.Errorf("the first user came %d times of 1000", first)
	}
}

// A plain acquire, a user's Allow: twice the time, once.
func TestByOther(t *testing.T) {
	row := make([]costResult, 2)
	for i, samples := range [][]float64{{10, 20, 30}, {20, 60, 60}} {
		for _, us := range samples {
			row[i].samples = append(row[i].samples, costSample{redis: us})
		}
	}
	if got := byOther(row, 1, 0); got < 2 || got > 2 {
		t.Errorf("ratio %g", got)
	}
}

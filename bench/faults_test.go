package main

import (
	"regexp"
	"strings"
	"testing"
)

// Every fault, with too few calls to mean anything. The part again is left out:
// it waits for longer than a test should.
func TestFaults(t *testing.T) {
	needs(t, "redis-server")
	var out strings.Builder
	names := []string{"killed", "late", "handles", "once", "many"}
	if err := run(t.Context(), &out, brief(""), names); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`  acquires a second before +[1-9]\d*$`,
		`  errors that callers got +\d+$`,
		`  OVERALL, kept +\d+ acquires, then +\d+ releases; \d+ fields in the hash$`,
		`  PER_CLIENT, one for each request +\d+ acquires, then +\d+ releases; \d+ fields in the hash$`,
		`  given back +1000$`,
		`  fields of sessions: hashes +map\[`,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(out.String()) {
			t.Errorf("no line like %s", line)
		}
	}
	if t.Failed() {
		t.Log("printed:\n" + out.String())
	}
}

// The half seconds that have too few acquires.
func TestLow(t *testing.T) {
	for _, test := range []struct {
		steps       []int64
		first, last int
	}{
		{[]int64{10, 10, 10, 10, 10, 10}, 0, 0},
		{[]int64{0, 0, 10, 10, 10, 10, 10, 10}, 2, 6},
		{[]int64{0, 0, 0, 0, 0, 0}, 6, 6},
		{[]int64{10, 10, 10, 10, 10, 0, 10, 10, 10, 10, 10}, 0, 10},
	} {
		if first, last := low(test.steps, 10); first != test.first || last != test.last {
			t.Errorf("%v: %d, %d", test.steps, first, last)
		}
	}
}

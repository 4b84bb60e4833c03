package main

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// Each caller makes its calls, no two the same one, and a refusal is an error.
func TestCrowded(t *testing.T) {
	var seen [60]atomic.Int32
	err := crowded(6, 10, func(i int) (bool, error) { return seen[i].Add(1) == 1, nil })
	if err != nil {
		t.Error(err)
	}
	for i := range seen {
		if seen[i].Load() != 1 {
			t.Errorf("call %d was made %d times", i, seen[i].Load())
		}
	}
	for _, callers := range []int{1, 6} {
		err := crowded(callers, 10, func(i int) (bool, error) { return i != 9, nil })
		if !errors.Is(err, errRefused) {
			t.Errorf("%d callers, one call refused: %v", callers, err)
		}
	}
}

// A rival is compared with ours of its algorithm, where both can be called, and the
// worst way counts.
func TestMemoryData(t *testing.T) {
	ours := &memoryResult{memoryEntrant: memoryEntrant{algorithm: fixedWindow, name: oursName}}
	rival := &memoryResult{memoryEntrant: memoryEntrant{algorithm: fixedWindow, name: "rival"}}
	other := &memoryResult{memoryEntrant: memoryEntrant{algorithm: tokenBucket, name: oursName}}
	ours.ns = [memoryWays][]float64{{10, 10, 30}, {20, 20, 20}, {30, 30, 30}, nil}
	rival.ns = [memoryWays][]float64{{10, 10, 10}, {10, 10, 40}, nil, nil}
	other.ns = [memoryWays][]float64{{1000}, {1000}, {1000}, {1000}}
	ours.allocs, ours.room.left = [2]float64{0, 1}, 0.5
	all := []*memoryResult{ours, rival, other}
	if worst := worstByRival(all, rival); worst < 2 || worst > 2 {
		t.Errorf("worst ratio %g, want 2", worst)
	}
	d := memoryDataOf(&scope{}, all)
	row := d.Rows[1]
	if row.Worst == nil || row.PerKey != nil || row.NS[keysOne] != nil || *row.NS[loneOne] != 10 {
		t.Errorf("row %+v", row)
	}
	met := map[string]bool{}
	for _, target := range memoryTargets(all[:2]) {
		met[target.What] = target.Met
	}
	if len(met) != 3 {
		t.Errorf("targets %v", met)
	}
	for what, ok := range met {
		if ok {
			t.Errorf("met: %s", what)
		}
	}
}

// All contestants have ours of their algorithm before them, and grant a permit.
func TestEntrants(t *testing.T) {
	s := scope{brief: true}
	var err error
	func() {
		defer func() { s.End(recover(), &err) }()
		for _, e := range memoryEntrants() {
			r := &memoryResult{memoryEntrant: e}
			jobs, err := r.jobs(&s)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				if err := j.run(); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	if err != nil {
		t.Error(err)
	}
	before := ""
	for _, e := range redisEntrants() {
		if !e.ours() && e.algorithm != before || strings.TrimSpace(e.algorithm) == "" {
			t.Errorf("%s stands behind %s", e.name, before)
		}
		before = e.algorithm
	}
}

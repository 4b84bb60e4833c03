package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// memoryPart shows what a limiter in memory costs, by algorithm, beside the library that
// people use for it now.
var memoryPart = &part{
	name: "algorithms-memory", set: setPage, measure: measureMemory,
	about: "ns, allocations and bytes per key of limiters in memory, by algorithm, beside rivals",
}

// The ways to call a limiter in memory, in the order of the tables.
const (
	loneOne  = iota // a limiter, one caller
	loneMany        // a limiter, 64 callers
	keysOne         // 10,000 keys, one caller
	keysMany
	memoryWays
)

// memoryCallers are those of loneMany and keysMany.
const memoryCallers = 64

// A memoryResult is what one contestant showed.
type memoryResult struct {
	memoryEntrant
	ns     [memoryWays][]float64 // per call, by round; nil: it has no such form
	allocs [2]float64            // of loneOne and keysOne
	room   keysRoom
}

// A memoryJob is a batch of calls.
type memoryJob struct {
	of    *memoryResult
	way   int
	calls int
	run   func() error
}

// measureMemory lets contestants take turns in short batches, and then gives each a
// million keys.
func measureMemory(ctx context.Context, s *scope) (finding, error) {
	var results []*memoryResult
	var jobs []memoryJob
	for _, e := range memoryEntrants() {
		r := &memoryResult{memoryEntrant: e}
		more, err := r.jobs(s)
		if err != nil {
			return finding{}, fmt.Errorf("%s, %s: %w", e.algorithm, e.name, err)
		}
		results, jobs = append(results, r), append(jobs, more...)
	}
	runs := make([]func() error, len(jobs))
	for i := range jobs {
		runs[i] = jobs[i].run
	}
	times, err := loops(ctx, runs, amount(s, 100, 1), 1)
	if err != nil {
		return finding{}, err
	}
	for i, j := range jobs {
		for _, ns := range times[i] {
			j.of.ns[j.way] = append(j.of.ns[j.way], ns/float64(j.calls))
		}
	}
	progress("algorithms-memory: speed")
	for _, r := range results {
		if err := r.measureKeys(ctx, s); err != nil {
			return finding{}, fmt.Errorf("%s, %s: keys: %w", r.algorithm, r.name, err)
		}
	}
	return finding{memoryDataOf(s, results), memoryTargets(results)}, nil
}

// jobs makes the batches of a contestant, and counts allocations.
func (r *memoryResult) jobs(s *scope) (all []memoryJob, err error) {
	lone := r.lone
	if lone == nil {
		lone = func(s *scope, t terms) (try, error) {
			once, err := r.keyed(s, t)
			return func() (bool, error) { return once("one") }, err
		}
	}
	once, err := lone(s, generous)
	if err != nil {
		return nil, err
	}
	all = r.pair(s, loneOne, func(int) (bool, error) { return once() })
	if r.keyed == nil {
		return all, nil
	}
	keys := keysAtRandom(amount(s, 10_000, 100))
	ofKey, err := r.keyed(s, generous)
	if err != nil {
		return nil, err
	}
	more := r.pair(s, keysOne, func(i int) (bool, error) { return ofKey(keys[i%len(keys)]) })
	return append(all, more...), nil
}

// pair makes the batches of one caller and of many, and counts allocations.
func (r *memoryResult) pair(s *scope, way int, do func(i int) (bool, error)) []memoryJob {
	n := 0
	for ; n < 10_000; n++ { // then all keys are there
		_, _ = do(n)
	}
	r.allocs[way/keysOne] = testing.AllocsPerRun(amount(s, 20_000, 200), func() {
		_, _ = do(n)
		n++
	})
	job := func(way, callers, calls int) memoryJob {
		from := 0
		return memoryJob{r, way, calls, func() error {
			from += calls // the next batch has other keys
			err := crowded(callers, calls/callers, func(i int) (bool, error) { return do(from + i) })
			if err != nil {
				return fmt.Errorf("%s, %s, %s: %w", r.algorithm, r.name, callersText(callers), err)
			}
			return nil
		}}
	}
	return []memoryJob{
		job(way, 1, amount(s, 1024, 64)), job(way+1, memoryCallers, amount(s, 8192, memoryCallers)),
	}
}

// crowded lets callers make so many calls each.
func crowded(callers, each int, do func(i int) (bool, error)) error {
	some := func(from int) error {
		for i := range each {
			if ok, err := do(from + i); err != nil || !ok {
				return cmp.Or(err, errRefused)
			}
		}
		return nil
	}
	if callers == 1 {
		return some(0)
	}
	errs := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() { errs[c] = some(c * each) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// keysAtRandom returns keys in no order.
func keysAtRandom(n int) []string {
	keys := make([]string, n)
	for i, key := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		keys[i] = keyNumber(key)
	}
	return keys
}

// keyNumber returns a key of 12 bytes.
func keyNumber(i int) string { return fmt.Sprintf("user-%07d", i) }

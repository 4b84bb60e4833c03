package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The ways to call a limiter in memory, in the order of the tables.
const (
	loneOne  = iota // a limiter, one caller
	loneMany        // a limiter, 64 callers
	keysOne         // 10,000 keys, one caller
	keysMany
	memoryWays
)

const memoryCallers = 64

type memoryResult struct {
	entrant
	ns           [memoryWays][]num // per call, by round; nil: it has no such form
	allocs       num               // of a call, with a key or without
	perKey, left num               // bytes of heap, and the part of them that is left
}

type memoryData struct {
	Keys, Callers int
	Versions      map[string]string // of all libraries of the page, by the names in modules
	Rows          []memoryRow
}

// A memoryRow is a contestant. NaN stands for what it does not have.
type memoryRow struct {
	Algorithm, Name string
	NS              [memoryWays]num
	MostAllocs      num // of a call, with a key or without
	PerKey, Left    num
	Worst           num // this library by it, the worst of all ways
}

type memoryJob struct {
	of    *memoryResult
	way   int
	calls int
	run   func() error
}

// measureMemory lets contestants take turns in short batches, and then gives each a million keys.
func measureMemory(ctx context.Context, s *scope) finding {
	var results []*memoryResult
	var jobs []memoryJob
	var runs []func() error
	for _, e := range entrants(false) {
		r := &memoryResult{entrant: e, perKey: num(math.NaN()), left: num(math.NaN())}
		more := r.jobs(ctx, s)
		results, jobs = append(results, r), append(jobs, more...)
		for _, j := range more {
			runs = append(runs, j.run)
		}
	}
	times := get(loops(ctx, runs, amount(s, 100, 1), 1))
	for i, j := range jobs {
		for _, ns := range times[i] {
			j.of.ns[j.way] = append(j.of.ns[j.way], ns/num(j.calls))
		}
	}
	for _, r := range results {
		r.measureKeys(ctx, s)
	}
	return memoryFinding(s, results)
}

func (r *memoryResult) jobs(ctx context.Context, s *scope) (all []memoryJob) {
	keys := keysAtRandom(amount(s, 10_000, 100))
	for way, made := range map[int]newLimiter{loneOne: r.lone, keysOne: r.keyed} {
		of := keys
		if way == loneOne {
			of = []string{"one"}
			if made == nil {
				made = r.keyed
			}
		}
		if made == nil {
			continue
		}
		l := made(env{s: s, terms: generous})
		do := func(i int) (bool, error) { return l(ctx, of[i%len(of)]) }
		n := 0
		for ; n < 10_000; n++ { // then all keys are there
			_, _ = do(n)
		}
		r.allocs = max(r.allocs, num(testing.AllocsPerRun(amount(s, 20_000, 200), func() {
			_, _ = do(n)
			n++
		})))
		all = append(all, r.job(way, 1, amount(s, 1024, 64), do),
			r.job(way+1, memoryCallers, amount(s, 8192, memoryCallers), do))
	}
	return all
}

// job makes a batch of calls, by so many callers together.
func (r *memoryResult) job(way, callers, calls int, do func(i int) (bool, error)) memoryJob {
	from, errs := 0, make([]error, callers)
	some := func(c int) {
		for i := range calls / callers {
			if errs[c] = granted(do(from + c*(calls/callers) + i)); errs[c] != nil {
				return
			}
		}
	}
	return memoryJob{r, way, calls, func() error {
		from += calls // the next batch has other keys
		if callers == 1 {
			some(0)
			return errs[0]
		}
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() { some(c) })
		}
		all.Wait()
		return cmp.Or(errs...)
	}}
}

func keysAtRandom(n int) []string {
	keys := make([]string, n)
	for i, key := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		keys[i] = keyNumber(key)
	}
	return keys
}

func keyNumber(i int) string { return fmt.Sprintf("user-%07d", i) }

// measureKeys lets many keys come, once to stay, and then some to be idle.
func (r *memoryResult) measureKeys(ctx context.Context, s *scope) {
	if r.keyed == nil {
		return
	}
	n := amount(s, 1_000_000, 1000)
	full, _ := r.fill(ctx, s, n, time.Hour)
	r.perKey = full * 1e6 / num(n)
	// To look at a heap takes long enough for a sweep: what keys take is known by now.
	some := n / 10
	_, left := r.fill(ctx, s, some, amount(s, time.Second, 50*time.Millisecond))
	r.left = left * 1e6 / (r.perKey * num(some))
}

// fill lets n keys come, each once. It returns the MB that they take, and that are left after five windows,
// unless those are hours; each half of them ends with a call.
func (r *memoryResult) fill(ctx context.Context, s *scope, n int, window time.Duration) (full, left num) {
	before := settledMB()
	l := r.keyed(env{s: s, terms: terms{1000, window}})
	for i := range n {
		must(granted(l(ctx, keyNumber(i)))) // only the limiter keeps the key, as that of a request
	}
	full = settledMB() - before
	for i := 0; i < 10 && window < time.Hour; i++ {
		must(pause.For(ctx, window/2))
		get(l(ctx, "later"))
	}
	left = settledMB() - before
	runtime.KeepAlive(l)
	return full, left
}

// settledMB returns the MB of heap when that does not become less any more. A store with a finalizer, as that
// of ulule/limiter, is gone some collections after its last use.
func settledMB() num {
	mb := heapMB()
	for range 10 {
		time.Sleep(10 * time.Millisecond) // finalizers and what they stop take their time
		less := heapMB()
		if mb-less < 0.05 {
			return less
		}
		mb = less
	}
	return mb
}

// memoryFinding returns the medians. Ours is to be no slower than any rival, not to allocate, and to drop
// idle keys.
func memoryFinding(s *scope, results []*memoryResult) (f finding) {
	d := &memoryData{
		Keys: amount(s, 1_000_000, 1000), Callers: memoryCallers, Versions: map[string]string{},
	}
	for name, path := range modules {
		d.Versions[name] = moduleVersion(path)
	}
	var memory *memoryResult
	for _, r := range results {
		row := memoryRow{
			Algorithm: r.algorithm, Name: r.name, MostAllocs: r.allocs, PerKey: r.perKey, Left: r.left,
			Worst: num(math.NaN()),
		}
		if r.ours {
			memory = r
		}
		worst := num(0)
		for way, ns := range r.ns {
			row.NS[way] = num(math.NaN())
			if ns != nil {
				row.NS[way] = median(ns, itself)
				worst = max(worst, ratio(memory.ns[way], ns, itself))
			}
		}
		what := r.algorithm + " in memory: "
		if r.ours {
			f.targets = append(f.targets, most("T14", what+"allocations of a call", r.allocs, 0, ""),
				most("T14", what+"keys that are idle, part of their heap", r.left, 0.01, ""))
		} else {
			row.Worst = worst
			what += "ns of a call by " + r.name + ", the worst way to call"
			f.targets = append(f.targets, most("T14", what, worst, 1+tolerance, ""))
		}
		d.Rows = append(d.Rows, row)
	}
	f.data = d
	return f
}

// redisMany is the number of many callers. They ask for 1,000 keys in turns.
const redisMany = 64

type redisResult struct {
	entrant
	one, many []sample // by round: of a lone caller, of many
	traffic
	perKey num // bytes of Redis
}

type redisData struct {
	Callers int
	Rows    []redisRow
}

type redisRow struct {
	Algorithm, Name string
	P50             num // µs, one caller
	PerSecond       num // many callers
	CPU             num // µs of the process of Redis per call, many callers
	traffic
	PerKey, Allocs       num
	ByP50, ByMany, ByCPU num   // this library, by it: time, time of many, CPU; 0 for this library
	Piped                []num `json:",omitempty"` // the same, of ours with a pipeline, where it has one
}

// measureRedis measures bytes first, and then speed round after round.
func measureRedis(ctx context.Context, s *scope) finding {
	server := redistest.Start(s)
	admin, proxy := server.Admin(), redistest.StartProxy(s, server.Addr)
	users := keysAtRandom(amount(s, 1000, 20))
	var results []*redisResult
	var asks []limiter
	for _, e := range entrants(true) {
		r := &redisResult{entrant: e}
		r.weigh(ctx, s, server, proxy, users)
		l := e.keyed(env{s, server.Client(s, patient), benchName, generous})
		results, asks = append(results, r), append(asks, l)
	}
	inOrder := &visits{users: users}
	for i := range users {
		inOrder.order = append(inOrder.order, int32(i))
	}
	must(takeTurns(ctx, "algorithms-redis", s.rounds, len(results), func(who int) error {
		r := results[who]
		for callers, to := range map[int]*[]sample{1: &r.one, redisMany: &r.many} {
			got, err := s.runBatch(ctx, admin, inOrder.asks(asks[who], callers))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", r.algorithm, r.name, err)
			}
			*to = append(*to, got)
		}
		return admin.FlushDB(ctx).Err()
	}))
	return redisFinding(results)
}

// weigh counts bytes and round trips of calls for keys that are there, and what the keys take in Redis.
func (r *redisResult) weigh(
	ctx context.Context, s *scope, server *redistest.Server, proxy *redistest.Proxy, users []string,
) {
	admin := server.Admin()
	far := server.Client(s, func(o *redis.Options) { o.Addr = proxy.Addr })
	l := r.keyed(env{s, far, benchName, generous})
	ask := func(users []string) error {
		return inParallel(1, len(users), func(i int) error { return granted(l(ctx, users[i])) })
	}
	// The script is loaded, and the table of keys is as large as it becomes.
	must(ask(users[:1]))
	for _, user := range users {
		must(admin.Set(ctx, "other:"+user, 1, 0).Err())
	}
	before := get(usedMemory(ctx, admin))
	must(ask(users[1:]))
	after := get(usedMemory(ctx, admin))
	r.perKey = max(0, (after-before)*1e6/num(len(users)-1)) // noise may make nothing less than that
	r.traffic = get(trafficOf(proxy, len(users), func() error { return ask(users) }))
	must(admin.FlushDB(ctx).Err())
}

func (r *redisResult) ratios(rival *redisResult) []num {
	return []num{
		ratio(r.one, rival.one, p50), ratio(rival.many, r.many, perSecond), ratio(r.many, rival.many, cpu),
	}
}

// redisFinding returns the medians. Ours is to take one round trip, and to be no slower than rivals.
func redisFinding(results []*redisResult) (f finding) {
	d := &redisData{Callers: redisMany}
	var direct, pipelined *redisResult
	for _, r := range results {
		one, many := medians(r.one), medians(r.many)
		row := redisRow{
			Algorithm: r.algorithm, Name: r.name, P50: one.P50, PerSecond: many.PerSecond, CPU: many.CPU,
			traffic: r.traffic, PerKey: r.perKey, Allocs: one.Allocs,
		}
		what := r.algorithm + " on Redis: "
		if r.ours {
			if r.piped {
				pipelined = r
			} else {
				direct = r
			}
			trips := 1.0
			if r.algorithm == concurrent { // to take and to give back
				trips = 2
			}
			f.targets = append(f.targets, most("T15", what+"round trips of a call", r.Trips, trips, ""))
		} else {
			by := direct.ratios(r)
			row.ByP50, row.ByMany, row.ByCPU = by[0], by[1], by[2]
			load := by[2]
			if r.piped { // who has many callers takes a pipeline, and who has one does not
				row.Piped = pipelined.ratios(r)
				load = row.Piped[2]
			}
			f.targets = append(f.targets,
				most("T15", what+"p50 of a lone caller by "+r.name, by[0], 1+tolerance, ""),
				most("T15", what+"CPU of Redis per call, 64 callers, by "+r.name, load, 1+tolerance, ""))
		}
		d.Rows = append(d.Rows, row)
	}
	f.data = d
	return f
}

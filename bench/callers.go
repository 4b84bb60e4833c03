package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The contestants, in the order of the tables.
const (
	floor    = iota // a script that does nothing, one call per caller
	ours            // this library
	alone           // this library, one call per caller
	redisson        // Redisson, in the Java peer
	rate            // redis_rate
	fixed           // rueidislimiter
	contestants
)

var labels = [contestants]string{
	floor: "bare EVALSHA", ours: oursName, alone: "one call per caller",
	redisson: "Redisson", rate: "redis_rate", fixed: "rueidislimiter",
}

// The limit of every contestant.
const (
	// plenty is a rate that no part comes near: every acquire is granted.
	plenty = 1 << 40

	// interval is shorter than the warm-up of a batch, so that records expire all the time while it is
	// measured. A limiter that never has to remove old records is not what people run.
	interval = 100 * time.Millisecond
)

// A maker makes the asks of a batch of callers on one limiter.
type maker func(limiter string, callers int) []ask

// shared is the maker of an ask that all callers share.
func shared(of func(limiter string) ask) maker {
	return func(limiter string, callers int) []ask { return slices.Repeat([]ask{of(limiter)}, callers) }
}

func tryAcquire(l *rratelimiter.RateLimiter) ask {
	return func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1, 0) }
}

// newFloor is the least that any limiter with a script can cost: a script that does nothing, sent by
// go-redis.
func newFloor(rdb *redis.Client) func(limiter string) ask {
	nothing := redis.NewScript("return 1")
	return func(limiter string) ask {
		return func(ctx context.Context) (bool, error) {
			return nothing.Run(ctx, rdb, []string{limiter}).Bool()
		}
	}
}

// newOurs is this library: one RateLimiter that all callers share.
func newOurs(s *scope, rdb *redis.Client) func(limiter string) ask {
	client := s.client(rdb)
	return func(limiter string) ask { return tryAcquire(client.RateLimiter(limiter)) }
}

// newAlone is this library with a Client for each caller, all over one pool. Requests are merged within a
// Client, so each of these callers sends its own.
func newAlone(s *scope, rdb *redis.Client) maker {
	var clients []*rratelimiter.Client
	return func(limiter string, callers int) []ask {
		asks := make([]ask, callers)
		for i := range asks {
			if i == len(clients) {
				clients = append(clients, s.client(rdb))
			}
			asks[i] = tryAcquire(clients[i].RateLimiter(limiter))
		}
		return asks
	}
}

func newRival(s *scope, rdb *redis.Client, name string) maker {
	// 2^30: the script of redis_rate reckons in seconds per permit, which must not become 0.
	l := rivalOnRedis(name).keyed(env{s, rdb, benchName, terms{1 << 30, interval}})
	return shared(func(limiter string) ask {
		return func(ctx context.Context) (bool, error) { return l(ctx, limiter) }
	})
}

type table struct {
	callers int
	rows    [contestants][]sample // one sample for each round
	failed  [contestants]string   // why a contestant has none
}

// An arena is where the contestants meet: one server and one JVM.
type arena struct {
	scope  *scope
	admin  *redis.Client // for what is not measured
	setter *rratelimiter.Client
	makers [contestants]maker
	peer   *javapeer.Peer
}

// javaClient is the Redisson instance of the parts callers and lone. All threads share it, with its default
// pools.
const javaClient = "bench"

// newArena starts both and makes the contestants. They share the server: servers of their own would differ by
// where their memory lies.
func newArena(ctx context.Context, s *scope) *arena {
	peer := get(s.peer(ctx))
	server := redistest.Start(s)
	// Its timeout is longer, so that thousands of threads do not make it give up.
	get(peer.Connect(ctx, javaClient, server.Addr, javapeer.Timeout(time.Minute)))
	// Each contestant has a pool of its own, as if it were the only one.
	rdb := func() *redis.Client { return server.Client(s, patient) }
	a := &arena{scope: s, admin: server.Admin(), setter: s.client(server.Admin()), peer: peer}
	a.makers[floor], a.makers[ours] = shared(newFloor(rdb())), shared(newOurs(s, rdb()))
	a.makers[alone] = newAlone(s, rdb())
	for _, who := range []int{rate, fixed} {
		a.makers[who] = newRival(s, rdb(), labels[who])
	}
	return a
}

// measureCallers answers what most people ask first: how many acquires a second, how late, and at what price
// for Redis. A limit that many share is what a limiter on Redis is for.
func measureCallers(ctx context.Context, s *scope) finding {
	a := newArena(ctx, s)
	for _, threads := range []int{1, 64} { // a lone thread and many take other paths
		must(a.withLimiter(ctx, func(name string) error {
			// 4 s: from then on the figures of a JVM do not improve any more.
			lasts := amount(s, 4*time.Second, 50*time.Millisecond)
			o := javapeer.LoopOptions{Threads: threads, Duration: lasts}
			_, err := a.peer.Limiter(javaClient, name).Loop(ctx, o)
			return err
		}))
	}
	// A service that is idle, busy, or flooded, in steps of eight.
	var tables []*table
	for _, n := range amount(s, []int{1, 8, 64, 512, 4096}, []int{1, 64}) {
		tables = append(tables, &table{callers: n})
	}
	must(takeTurns(ctx, "callers", s.rounds, contestants, func(who int) error {
		for _, t := range tables {
			if err := a.batch(ctx, t, who); err != nil {
				return fmt.Errorf("%s, %d callers: %w", labels[who], t.callers, err)
			}
		}
		return nil
	}))
	d := &callersData{
		Redis: get(infoOf(ctx, a.admin, "Server", "redis_version")), Redisson: a.peer.Version(),
		Span: span.String(), Warmup: warmup.String(), Pool: poolTimeout.String(), Interval: interval.String(),
	}
	d.add(tables)
	return finding{d, callersTargets(tables)}
}

// batch gives a contestant a batch on a limiter of its own. Only Redisson may fail: a JVM may not manage as
// many threads.
func (a *arena) batch(ctx context.Context, t *table, who int) error {
	if t.failed[who] != "" {
		return nil
	}
	var got sample
	err := a.withLimiter(ctx, func(name string) (err error) {
		if who == redisson {
			got, err = a.javaBatch(ctx, name, t.callers)
		} else {
			got, err = a.scope.runBatch(ctx, a.admin, a.makers[who](name, t.callers))
		}
		return err
	})
	if err != nil && who == redisson && ctx.Err() == nil {
		t.failed[who] = err.Error()
		return nil
	}
	t.rows[who] = append(t.rows[who], got)
	return err
}

// withLimiter calls do with a new limiter, which serves Redisson as well.
func (a *arena) withLimiter(ctx context.Context, do func(name string) error) error {
	name := redistest.Name(a.scope)
	_, err := a.setter.RateLimiter(name).TrySetRate(ctx, rratelimiter.Overall, plenty, interval)
	if err == nil {
		err = do(name)
	}
	_ = a.admin.FlushDBAsync(ctx).Err() // an error shows in the next batch
	return err
}

// javaBatch measures Redisson in a loop inside the JVM. The work of Redis during the warm-up cannot be
// separated, so all of it is divided by all script calls: Redisson makes one per acquire.
func (a *arena) javaBatch(ctx context.Context, name string, threads int) (sample, error) {
	var got javapeer.LoopResult
	before, measured := a.scope.spans()
	used, err := usageDuring(ctx, a.admin, func() (err error) {
		got, err = a.peer.Limiter(javaClient, name).Loop(ctx, javapeer.LoopOptions{
			// Longer than for Go: starting thousands of threads takes a while.
			Threads: threads, Warmup: 5 * before / 2, Duration: measured,
		})
		return err
	})
	n := max(1, used.scripts().calls)
	return sample{
		PerSecond: num(got.PerSecond), P50: num(got.P50us), P99: num(got.P99us), P999: num(got.P999us),
		CPU: used.cpu * 1e6 / n, Script: used.scripts().usec / n, Calls: 1, Allocs: noAllocs,
	}, err
}

// A callersData is what the page and the pictures show of the part callers.
type callersData struct {
	Redis, Redisson string // versions
	Span, Warmup    string // of a batch
	Pool            string // how long a caller waits for a connection
	Interval        string // of the limiters
	Tables          []callersTable
}

type callersTable struct {
	Callers int
	Who     string
	Rows    []row
	Fail    string // why a contestant has no row
}

func (d *callersData) add(tables []*table) {
	for _, t := range tables {
		one := callersTable{Callers: t.callers, Who: callersText(t.callers)}
		for who, rows := range t.rows {
			if len(rows) == 0 {
				one.Fail = labels[who] + " could not do it: " + t.failed[who]
				continue
			}
			one.Rows = append(one.Rows, row{labels[who], medians(rows)})
		}
		d.Tables = append(d.Tables, one)
	}
}

func (t *callersTable) figures(who int) sample {
	for _, r := range t.Rows {
		if r.Name == labels[who] {
			return r.sample
		}
	}
	none := num(math.NaN())
	return sample{PerSecond: none, P99: none, CPU: none}
}

// shown is the order in which a reader compares: this library, its rivals, and then what explains the
// figures.
var shown = []int{ours, redisson, rate, fixed, alone, floor}

type speed struct {
	Name      string
	PerSecond []string // by number of callers
}

// Speeds returns the first table: acquires a second of each contestant.
func (d *callersData) Speeds() (speeds []speed) {
	for _, who := range shown {
		s := speed{Name: labels[who]}
		for i := range d.Tables {
			s.PerSecond = append(s.PerSecond, figureOf(d.Tables[i].figures(who).PerSecond))
		}
		speeds = append(speeds, s)
	}
	return speeds
}

// A faster is a rival that did better than this library.
type faster struct {
	Who, Rival         string
	Theirs, Ours       num  // acquires a second
	TheirCPU, OurCPU   num  // µs of Redis per acquire
	MoreCalls, LessCPU bool // in which of the two it did better
}

// Faster returns where a rival makes more acquires a second, or takes less CPU of Redis, by more than
// tolerance. It follows from the figures, so that the page cannot claim what a new run does not show.
func (d *callersData) Faster() (all []faster) {
	for i := range d.Tables {
		t := &d.Tables[i]
		mine := t.figures(ours)
		for _, who := range []int{redisson, rate, fixed} {
			theirs := t.figures(who)
			f := faster{
				t.Who, labels[who], theirs.PerSecond, mine.PerSecond, theirs.CPU, mine.CPU,
				theirs.PerSecond > mine.PerSecond*(1+tolerance), theirs.CPU < mine.CPU*(1-tolerance),
			}
			if f.MoreCalls || f.LessCPU {
				all = append(all, f)
			}
		}
	}
	return all
}

// Beaten reports whether Faster has a rival.
func (d *callersData) Beaten(rival string) bool {
	return slices.ContainsFunc(d.Faster(), func(f faster) bool { return f.Rival == rival })
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return thousands(float64(n)) + " callers"
}

// wantedOfRedisson says, by callers, how many times the acquires a second of Redisson are wanted. A lone
// caller gains what Go saves over Java; many callers share calls, and gain almost as much as there are
// callers.
var wantedOfRedisson = map[int]float64{1: 1.6, 8: 3.5, 64: 22, 512: 100}

// wantedOfFloor says, by callers, how many times the acquires a second of a script that does nothing are
// wanted, each by a call of its own.
var wantedOfFloor = map[int]float64{8: 1.3, 64: 7, 512: 25}

func callersTargets(tables []*table) (all []target) {
	add := func(t target) { all = append(all, t) }
	for _, t := range tables {
		who := callersText(t.callers)
		mine := t.rows[ours]
		what := fmt.Sprintf("acquires per second, %s: this library by ", who)
		if wanted, there := wantedOfRedisson[t.callers]; there {
			add(least("T1", what+"Redisson", ratio(mine, t.rows[redisson], perSecond), wanted, ""))
		}
		if wanted, there := wantedOfFloor[t.callers]; there {
			add(least("T1", what+"bare EVALSHA", ratio(mine, t.rows[floor], perSecond), wanted, ""))
		}
		// There a JVM may fail, so we are compared with ourselves.
		if t.callers == 4096 {
			add(least("T1", what+"one call per caller", ratio(mine, t.rows[alone], perSecond), 25, ""))
		}
		// Merging callers makes the slowest of them no slower. A lone caller is not merged.
		if t.callers > 1 {
			what = fmt.Sprintf("p99, %s: this library by one call per caller", who)
			add(most("T2", what, ratio(mine, t.rows[alone], p99), 1, ""))
		}
		if t.callers == 512 {
			add(most("T3", fmt.Sprintf("CPU of Redis per acquire, %s: this library by Redisson", who),
				ratio(mine, t.rows[redisson], cpu), 0.01, ""))
		}
		if t.callers >= 64 {
			add(most("T7", fmt.Sprintf("allocations per acquire, %s who are merged", who),
				medians(mine).Allocs, 1, ""))
		}
	}
	return all
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

type state struct {
	name     string
	what     string // for the page
	rate     int64
	interval time.Duration
	taken    int64         // permits, before; then every call is refused
	settle   time.Duration // how long it is called before the limiter is in the state
}

// states are what a call may meet. Each batch has new limiters, so that in the first state no record is an
// interval old.
var states = []state{
	{name: "granted", what: "1,000,000 per 1 s, nothing has expired yet", rate: 1e6, interval: time.Second},
	{name: "steady", what: "1,000,000 per 20 ms, records expire all the time",
		rate: 1e6, interval: 20 * time.Millisecond, settle: 40 * time.Millisecond},
	{name: "refused", what: "5 per 100 s, 5 are taken", rate: 5, interval: 100 * time.Second, taken: 5},
}

// A limitKind is one kind of call. It asks for one permit and does not wait.
type limitKind struct {
	name  string
	fresh bool // each call meets a limiter that is not there yet, which grants
	rival bool // it may grant what this library refuses
	waits bool // it waits where it is refused, so it is not measured there
	twice bool // each call runs two scripts

	// batch asks n times, for limiters whose names begin with name, directly or by the proxy (far). ask does
	// so once; batch is nil where it is a loop of that.
	ask   func(c costClient, name string, st state) ask
	batch func(ctx context.Context, name string, far bool, n int) (took spread, err error)
}

// The places of the kinds that each other kind is compared with.
const (
	plainAcquire = iota
	keptAcquire
	plainAllow
	userAllow
	newAllow
	twoAcquire
	twoAllow
)

// limitKinds are all kinds, in the order of the table.
var limitKinds = []limitKind{
	plainAcquire: {name: "TryAcquire", ask: acquireOf(one)},
	keptAcquire:  {name: "TryAcquire, WithKeepAlive", ask: acquireOf(kept)},
	plainAllow:   {name: "Allow", ask: allowOf(one)},
	userAllow:    {name: "Keyed.Allow, a user that is there", ask: allowOf(user)},
	newAllow:     {name: "Keyed.Allow, a new user", fresh: true, ask: allowNew},
	twoAcquire:   {name: "two limits, TryAcquire", ask: acquireOf(groupOf(2))},
	twoAllow:     {name: "two limits, Allow", ask: allowOf(groupOf(2))},
	{name: "four limits, TryAcquire", ask: acquireOf(groupOf(4))},
	{name: "four limits, Allow", ask: allowOf(groupOf(4))},
}

// An asked is what a kind of call asks: a RateLimiter or a Group.
type asked interface {
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Allow(ctx context.Context, permits int64) (rratelimiter.Result, error)
}

type chooser func(c *rratelimiter.Client, name string, st state) asked

func acquireOf(choose chooser) func(costClient, string, state) ask {
	return func(c costClient, name string, st state) ask {
		l := choose(c.Client, name, st)
		return func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1, 0) }
	}
}

func allowOf(choose chooser) func(costClient, string, state) ask {
	return func(c costClient, name string, st state) ask {
		l := choose(c.Client, name, st)
		return func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, 1)
			return r.Allowed, err
		}
	}
}

// allowNew asks for another user each time. All handlers do what it does: they make the RateLimiter of a user
// for one request.
func allowNew(c costClient, name string, st state) ask {
	t := c.Keyed(name+":new", st.rate, st.interval)
	return func(ctx context.Context) (bool, error) {
		r, err := t.Allow(ctx, strconv.FormatUint(rand.Uint64(), 36), 1)
		return r.Allowed, err
	}
}

// member returns the name of a member of a Group; the first is the plain limiter.
func member(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprint(name, ":", i)
}

// one, kept, user and groupOf choose the limiters that setUp has made.
func one(c *rratelimiter.Client, name string, _ state) asked  { return c.RateLimiter(name) }
func kept(c *rratelimiter.Client, name string, _ state) asked { return c.RateLimiter(name + ":kept") }

func user(c *rratelimiter.Client, name string, st state) asked {
	return c.Keyed(name+":user", st.rate, st.interval).RateLimiter("42")
}

func groupOf(n int) chooser {
	return func(c *rratelimiter.Client, name string, _ state) asked {
		var all []*rratelimiter.RateLimiter
		for i := range n {
			all = append(all, c.RateLimiter(member(name, i)))
		}
		return c.All(all...)
	}
}

// A costSample is what one call costs, by one batch in one state.
type costSample struct {
	Redis, P50            num // µs of the script in Redis, and until a lone caller has its answer
	Trips, Sent, Received num // round trips, bytes
	Commands              num // in the script
}

func redisTime(s costSample) num { return s.Redis }
func costP50(s costSample) num   { return s.P50 }

// A costing is what the parts limits and lone work with: a server, and a proxy that counts what is sent.
type costing struct {
	*scope
	admin        *redis.Client // for what is not measured
	setter       *rratelimiter.Client
	clients      map[bool]costClient // true: by the proxy
	server       *redistest.Server
	proxy        *redistest.Proxy
	rounds, size int // calls of a batch
}

// newCosting starts both. Batches are short, so that other work on the machine interrupts Redis in few of
// them, and not in the median.
func newCosting(s *scope) *costing {
	server := redistest.Start(s)
	c := &costing{
		scope: s, admin: server.Admin(), server: server, proxy: redistest.StartProxy(s, server.Addr),
		rounds: amount(s, 61, 1), size: amount(s, 50, 10),
	}
	c.setter = s.client(c.admin)
	c.clients = map[bool]costClient{
		false: newCostClient(s, server.Addr), true: newCostClient(s, c.proxy.Addr),
	}
	return c
}

// A costClient is what kinds of call ask with: a Client over the defaults of go-redis, and one over a client
// that keeps the deadlines of contexts.
type costClient struct {
	*rratelimiter.Client
	keeps *rratelimiter.Client
	rdb   *redis.Client // that of the first one
	scope *scope
}

func newCostClient(s *scope, addr string) costClient {
	rdb := func(keeps bool) *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: keeps})
		s.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	plain := rdb(false)
	return costClient{s.client(plain), s.client(rdb(true)), plain, s}
}

// measure returns the samples of all kinds in all states, by state and kind.
func (c *costing) measure(ctx context.Context, name string, kinds []limitKind) [][][]costSample {
	all := make([][][]costSample, len(states))
	for i := range all {
		all[i] = make([][]costSample, len(kinds))
	}
	must(takeTurns(ctx, name, c.rounds, len(kinds), func(who int) error {
		for i, st := range states {
			if kinds[who].meets(st) {
				all[i][who] = append(all[i][who], c.sample(ctx, kinds[who], st))
			}
		}
		return nil
	}))
	return all
}

// sample measures times first, and then bytes, by another connection, as the proxy adds latency. A batch that
// is not measured goes before each.
func (c *costing) sample(ctx context.Context, k limitKind, st state) (got costSample) {
	name := redistest.Name(c.scope)
	batch := func(far bool, n int) spread {
		if k.batch != nil {
			return get(k.batch(ctx, name, far, n))
		}
		once := k.ask(c.clients[far], name, st)
		return get(inTurns(ctx, []ask{func(ctx context.Context) (bool, error) {
			ok, err := once(ctx)
			if err == nil && !k.fresh && !k.rival && ok != (st.taken == 0) {
				err = fmt.Errorf("%s, %s: granted: %v", k.name, st.name, ok)
			}
			return ok, err
		}}, n))[0]
	}
	c.setUp(ctx, name, st)
	for start := time.Now(); ; {
		if batch(false, c.size); time.Since(start) >= st.settle {
			break
		}
	}
	used := get(usageDuring(ctx, c.admin, func() error {
		got.P50 = batch(false, c.size).P50
		return nil
	}))
	wanted := c.size
	if k.twice && st.taken == 0 { // the second settles what the first has granted
		wanted *= 2
	}
	if n := used.scripts().calls; int(n) != wanted {
		must(fmt.Errorf("%s, %s: %g scripts have run, not %d", k.name, st.name, n, wanted))
	}
	got.Redis = used.scripts().usec / num(c.size)
	got.Commands = used.all()/num(c.size) - 1 // without the script itself
	batch(true, 1)
	t := get(trafficOf(c.proxy, 5, func() error {
		batch(true, 5)
		return nil
	}))
	got.Trips, got.Sent, got.Received = t.Trips, t.Sent, t.Received
	must(c.admin.FlushDB(ctx).Err())
	return got
}

// setUp makes all limiters that a kind may ask, in a state. A Keyed keeps its limiters as long as a
// limiter WithKeepAlive of two intervals.
func (c *costing) setUp(ctx context.Context, name string, st state) {
	set := func(name string, opts ...rratelimiter.RateOption) {
		r := c.setter.RateLimiter(name)
		get(r.TrySetRate(ctx, rratelimiter.Overall, st.rate, st.interval, opts...))
		if st.taken > 0 {
			must(take(ctx, r, st.taken))
		}
	}
	for i := range 4 {
		set(member(name, i))
	}
	set(name+":kept", rratelimiter.WithKeepAlive(2*st.interval))
	if st.taken > 0 {
		must(take(ctx, c.setter.Keyed(name+":user", st.rate, st.interval).RateLimiter("42"), st.taken))
	}
}

type limitsTable struct {
	Name, What string
	Rows       []limitsRow
}

type limitsRow struct {
	Name string
	costSample
	ByAcquire, ByAllow num // Redis by that of a plain TryAcquire, and of a plain Allow
	P50ByAcquire       num
	GoAlloc            num
}

// table returns the medians of kinds in a state. plain has the places of a plain TryAcquire and a plain
// Allow, which each kind is compared with.
func (c *costing) table(
	ctx context.Context, st state, kinds []limitKind, samples [][]costSample, plain [2]int,
) limitsTable {
	acquire, allow := samples[plain[0]], samples[plain[1]]
	t := limitsTable{Name: st.name, What: st.what}
	for i, k := range kinds {
		if !k.meets(st) {
			continue
		}
		row := limitsRow{
			k.name, medians(samples[i]), ratio(samples[i], acquire, redisTime),
			ratio(samples[i], allow, redisTime), ratio(samples[i], acquire, costP50), noAllocs,
		}
		if k.ask != nil {
			name := redistest.Name(c.scope)
			c.setUp(ctx, name, st)
			row.GoAlloc = get(allocsOf(ctx, k.ask(c.clients[false], name, st), c.size))
			must(c.admin.FlushDB(ctx).Err())
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// meets reports whether a kind is measured in a state.
func (k *limitKind) meets(st state) bool { return st.taken == 0 || !k.fresh && !k.waits }

func measureLimits(ctx context.Context, s *scope) finding {
	c := newCosting(s)
	all := c.measure(ctx, "limits", limitKinds)
	var tables []limitsTable
	var targets []target
	for i, st := range states {
		tables = append(tables, c.table(ctx, st, limitKinds, all[i], [2]int{plainAcquire, plainAllow}))
		by := func(what string, kind, other int, bound float64) {
			targets = append(targets, most("T10", st.name+": Redis time of "+what,
				ratio(all[i][kind], all[i][other], redisTime), bound, ""))
		}
		by("a user's Allow by a plain TryAcquire", userAllow, plainAcquire, 1.3)
		by("two limits by one, TryAcquire", twoAcquire, plainAcquire, 1.5)
		by("two limits, Allow, by a plain TryAcquire", twoAllow, plainAcquire, 1.7)
	}
	trips := medians(all[0][userAllow]).Trips
	return finding{
		struct {
			Batches, Batch int
			Tables         []limitsTable
		}{c.rounds, c.size, tables},
		append(targets, most("T10", "round trips of a user's Allow", trips, 1, "")),
	}
}

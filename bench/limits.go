package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// limitsPart shows what the calls for web services cost by a plain acquire: the
// numbers of Allow, a limit for each user, several limits in one call.
var limitsPart = &part{
	name: "limits", set: setPage, measure: measureLimits,
	about: "Redis time, round trips and bytes of Allow, of a user's limit, and of several limits",
}

// A limitKind is one kind of call. It asks for one permit and does not wait.
type limitKind struct {
	name  string
	fresh bool // each call meets a limiter that is not there yet, which grants

	// ask makes it: of limiters that are there, whose names begin with name.
	ask func(c *rratelimiter.Client, name string, st state) ask
}

// The places of kinds that others are compared with.
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

// A chooser returns what is asked.
type chooser func(c *rratelimiter.Client, name string, st state) asked

// acquireOf is the ask without numbers.
func acquireOf(choose chooser) func(*rratelimiter.Client, string, state) ask {
	return func(c *rratelimiter.Client, name string, st state) ask {
		l := choose(c, name, st)
		return func(ctx context.Context) (bool, error) { return l.TryAcquire(ctx, 1, 0) }
	}
}

// allowOf is the ask with numbers.
func allowOf(choose chooser) func(*rratelimiter.Client, string, state) ask {
	return func(c *rratelimiter.Client, name string, st state) ask {
		l := choose(c, name, st)
		return func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, 1)
			return r.Allowed, err
		}
	}
}

// allowNew asks for another user each time. All handlers do what it does: they
// make the RateLimiter of a user for one request.
func allowNew(c *rratelimiter.Client, name string, st state) ask {
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

// one, kept, user and groupOf choose the limiters that limitSetup has made.
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

// limitStates are those that the page shows: a limiter that is busy, and one
// that is empty. In a Group all members are in the same state.
var limitStates = slices.DeleteFunc(slices.Clone(states), func(st state) bool { return st.cold })

// A limiting is what the part works with. The way to measure is that of the
// part cost.
type limiting struct {
	costing
	results [][]costResult // by state and kind
}

// The two plans. Batches are short, so that other work on the machine interrupts
// Redis in few of them, and not in the median.
var (
	limitsFull  = costPlan{rounds: 61, budget: 50 * time.Second, batch: 50, wire: 5}
	limitsBrief = costPlan{rounds: 1, budget: time.Minute, batch: 10, wire: 3}
)

// measureLimits measures round after round: in each, every kind of call has a
// batch in every state.
func measureLimits(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	l := &limiting{costing: costing{
		costPlan: amount(s, limitsFull, limitsBrief), scope: s,
		admin: server.Admin(), proxy: redistest.StartProxy(s, server.Addr),
	}}
	l.setter = s.client(l.admin)
	clients := [...]*rratelimiter.Client{
		direct:  s.client(server.Client(s)),
		proxied: s.client(server.Client(s, func(o *redis.Options) { o.Addr = l.proxy.Addr })),
	}
	if err := l.warm(ctx, clients); err != nil {
		return finding{}, err
	}
	start := time.Now()
	for i := 0; i < l.costPlan.rounds && (i == 0 || time.Since(start) < l.budget); i++ {
		if err := l.round(ctx, clients, i); err != nil {
			return finding{}, err
		}
	}
	return finding{l.data(), l.targets()}, nil
}

// warm makes the results without samples, and counts the allocations of calls.
func (l *limiting) warm(ctx context.Context, clients [2]*rratelimiter.Client) error {
	for _, st := range limitStates {
		var row []costResult
		for _, kind := range limitKinds {
			res := costResult{state: st, contestant: kind.name}
			err := l.with(ctx, &res, func(name string) (err error) {
				res.allocs, err = kind.caller(clients, st).prepare(ctx, name, l.costPlan)
				return err
			})
			if err != nil {
				return err
			}
			row = append(row, res)
		}
		l.results = append(l.results, row)
	}
	return nil
}

// round gives each kind a batch in each state, and begins with another one each
// time.
func (l *limiting) round(ctx context.Context, clients [2]*rratelimiter.Client, number int) error {
	for _, row := range l.results {
		for i := range row {
			n := (i + number) % len(row)
			res := &row[n]
			err := l.with(ctx, res, func(name string) error {
				return l.costing.measure(ctx, limitKinds[n].caller(clients, res.state), res, name)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// caller returns the kind as a contestant of the part cost.
func (k limitKind) caller(clients [2]*rratelimiter.Client, st state) *caller {
	c := &caller{label: k.name, limits: !k.fresh}
	for r, client := range clients {
		c.via[r] = func(name string) ask { return k.ask(client, name, st) }
	}
	return c
}

// with calls f with the name of new limiters in the state of res. Everything is
// deleted then.
func (l *limiting) with(ctx context.Context, res *costResult, f func(name string) error) error {
	name := redistest.Name(l.scope)
	err := l.setUp(ctx, name, res.state)
	if err == nil {
		err = f(name)
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w", res.contestant, res.state.name, err)
	}
	return l.admin.FlushDB(ctx).Err()
}

// setUp makes all limiters that a kind may ask, in a state.
func (l *limiting) setUp(ctx context.Context, name string, st state) (err error) {
	set := func(r *rratelimiter.RateLimiter, opts ...rratelimiter.RateOption) {
		_, e := r.TrySetRate(ctx, rratelimiter.Overall, st.rate, st.interval, opts...)
		err = errors.Join(err, e)
		l.take(ctx, r, st, &err)
	}
	for i := range 4 {
		set(l.setter.RateLimiter(member(name, i)))
	}
	// A Keyed keeps its limiters as long.
	set(l.setter.RateLimiter(name+":kept"), rratelimiter.WithKeepAlive(2*st.interval))
	l.take(ctx, l.setter.Keyed(name+":user", st.rate, st.interval).RateLimiter("42"), st, &err)
	return err
}

// take takes the permits that are taken in a state.
func (*limiting) take(ctx context.Context, r *rratelimiter.RateLimiter, st state, err *error) {
	if *err == nil && st.taken > 0 {
		_, *err = r.TryAcquire(ctx, st.taken, 0)
	}
}

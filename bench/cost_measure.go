package main

import (
	"context"
	"fmt"
	"time"
)

// A costSample is what one call costs, by one batch of a contestant in one
// state.
type costSample struct {
	redis          float64 // µs of the script in Redis
	p50, p99       float64 // µs until a lone caller has its answer
	trips          float64 // round trips
	sent, received float64 // bytes
}

// A costResult is all that is known of a contestant in a state.
type costResult struct {
	state      state
	contestant string
	samples    []costSample // one for each round
	used       usage        // in all samples; empty for cold, where noise runs as well
	scripts    int          // in all samples
	allocs     float64      // noAllocs: it is not in Go
}

// A costReport is what is printed: the results by state and contestant.
type costReport struct {
	redis   string // its version
	plan    costPlan
	results [][]costResult
	turns   map[string][]float64 // p50 of ours by that of the floor, by state and round
}

// measureAll runs round after round until all are done or the budget is spent.
func (c *costing) measureAll(ctx context.Context) (*costReport, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	// The budget keeps a run on a busy machine from taking forever: fewer rounds
	// are better than none at the end of one's patience.
	start := time.Now()
	for i := 0; i < c.costPlan.rounds && (i == 0 || time.Since(start) < c.budget); i++ {
		if err := c.round(ctx, r, i); err != nil {
			return nil, err
		}
		if err := c.takeTurns(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// prepare returns a report without samples. It warms all contestants up, in each
// state: a JVM compiles the paths that it runs, and states take different ones.
func (c *costing) prepare(ctx context.Context) (*costReport, error) {
	version, err := serverVersion(ctx, c.admin)
	r := &costReport{redis: version, plan: c.costPlan, turns: map[string][]float64{}}
	for _, st := range states {
		var row []costResult
		for _, one := range c.contestants {
			res := costResult{state: st, contestant: one.name()}
			err = c.withLimiter(ctx, err, &res, func(limiter string) (err error) {
				res.allocs, err = one.prepare(ctx, limiter, c.costPlan)
				return err
			})
			row = append(row, res)
		}
		r.results = append(r.results, row)
	}
	return r, err
}

// withLimiter calls f with a new limiter in the state of res, unless there is an
// error already. An error of f gets the contestant and the state added.
func (c *costing) withLimiter(ctx context.Context, err error, res *costResult, f func(string) error) error {
	if err != nil {
		return err
	}
	limiter, remove, err := c.limiter(ctx, res.state)
	defer remove()
	if err == nil {
		err = f(limiter)
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w", res.contestant, res.state.name, err)
	}
	return nil
}

// round gives each contestant a batch in each state. Each round begins with
// another one: what one does may be felt by the next.
func (c *costing) round(ctx context.Context, r *costReport, number int) (err error) {
	for _, row := range r.results {
		for i := range row {
			n := (i + number) % len(row)
			err = c.withLimiter(ctx, err, &row[n], func(limiter string) error {
				return c.measure(ctx, c.contestants[n], &row[n], limiter)
			})
		}
	}
	return err
}

// takeTurns compares ours with the floor call by call in each state. Cold is
// like granted here: noise would make both wait alike.
func (c *costing) takeTurns(ctx context.Context, r *costReport) (err error) {
	for _, row := range r.results {
		err = c.withLimiter(ctx, err, &row[costOurs], func(limiter string) error {
			asks := make([]ask, 2)
			for i, who := range []int{costFloor, costOurs} {
				asks[i] = c.contestants[who].(*caller).via[direct](limiter)
			}
			spreads, err := inTurns(ctx, asks, c.batch)
			if err != nil {
				return err
			}
			// A ratio for each round: the machine may change between rounds.
			ratio := micros(spreads[1].p50) / micros(spreads[0].p50)
			r.turns[row[0].state.name] = append(r.turns[row[0].state.name], ratio)
			return nil
		})
	}
	return err
}

// measure adds a sample to res: first times, and then bytes, by another
// connection, as the proxy adds latency.
func (c *costing) measure(ctx context.Context, who contestant, res *costResult, limiter string) error {
	if err := c.settle(ctx, who, res.state, limiter); err != nil {
		return err
	}
	var s costSample
	err := c.time(ctx, who, res, limiter, &s)
	if err == nil {
		err = c.weigh(ctx, who, limiter, &s)
	}
	res.samples = append(res.samples, s)
	return err
}

// settle makes batches that are not measured until the limiter is in its state;
// one at least, so that all that is used is in the caches.
func (c *costing) settle(ctx context.Context, who contestant, st state, limiter string) error {
	for start := time.Now(); ; {
		if _, err := who.calls(ctx, direct, limiter, c.batch); err != nil || time.Since(start) >= st.settle {
			return err
		}
	}
}

// time measures how long calls take, in Redis and for their caller. Nothing else
// may run a script meanwhile, which perScript checks.
func (c *costing) time(
	ctx context.Context, who contestant, res *costResult, limiter string, s *costSample,
) error {
	before, err := readUsage(ctx, c.admin)
	if err != nil {
		return err
	}
	n, got, err := c.calls(ctx, who, res.state, limiter)
	if err != nil {
		return err
	}
	after, err := readUsage(ctx, c.admin)
	if err != nil {
		return err
	}
	used := after.since(before)
	s.p50, s.p99 = micros(got.p50), micros(got.p99)
	if s.redis, err = used.perScript(n); err != nil {
		return err
	}
	// Among noise the commands of a script cannot be told from others.
	if !res.state.cold {
		res.used.add(used)
		res.scripts += n
	}
	return res.state.check(got.granted, n)
}

// calls asks n times as the state has it: in a row, or each call after noise.
func (c *costing) calls(
	ctx context.Context, who contestant, st state, limiter string,
) (n int, got outcome, err error) {
	if st.cold {
		got, err = c.coldCalls(ctx, who, limiter)
		return c.cold, got, err
	}
	got, err = who.calls(ctx, direct, limiter, c.batch)
	return c.batch, got, err
}

// coldCalls makes noise before each call. Each call is a batch by itself: the
// noise must not be in its latency.
func (c *costing) coldCalls(ctx context.Context, who contestant, limiter string) (all outcome, err error) {
	took := make([]time.Duration, c.cold)
	for i := range took {
		if err := c.noise.make(ctx); err != nil {
			return outcome{}, err
		}
		got, err := who.calls(ctx, direct, limiter, 1)
		if err != nil {
			return outcome{}, err
		}
		took[i] = got.p50
		all.granted += got.granted
	}
	all.spread = spreadOf(took)
	return all, nil
}

// weigh counts bytes and round trips. The first call is not counted: it may open
// the connection and load the script.
func (c *costing) weigh(ctx context.Context, who contestant, limiter string, s *costSample) error {
	if _, err := who.calls(ctx, proxied, limiter, 1); err != nil {
		return err
	}
	in, out, requests, _ := c.proxy.Stats()
	if _, err := who.calls(ctx, proxied, limiter, c.wire); err != nil {
		return err
	}
	nowIn, nowOut, nowRequests, _ := c.proxy.Stats()
	n := float64(c.wire)
	s.trips = float64(nowRequests-requests) / n
	s.sent, s.received = float64(nowIn-in)/n, float64(nowOut-out)/n
	return nil
}

package main

import (
	"context"
	"fmt"
	"time"
)

// sample is what one call costs, by one batch of a contestant in one state.
type sample struct {
	redis          float64 // µs of the script in Redis
	p50, p99       float64 // µs until a lone caller has its answer
	trips          float64
	sent, received float64 // bytes
}

// A result is all that is known of a contestant in a state.
type result struct {
	state      state
	contestant string
	samples    []sample // one for each round
	used       usages   // in all samples; none for cold, where others run as well
	scripts    int      // in all samples
	allocs     float64  // noAllocs: it is not in Go
}

// A report is what is printed: the results of each state, by contestant.
type report struct {
	redis   string // its version
	plan    plan
	results [][]result
	turns   map[string][]turn // by state, one for each round
}

// measureAll runs round after round until all are done or the budget is spent.
func (b *bench) measureAll(ctx context.Context) (*report, error) {
	r, err := b.prepare(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for i := 0; i < b.rounds && (i == 0 || time.Since(start) < b.budget); i++ {
		if err := b.round(ctx, r, i); err != nil {
			return nil, err
		}
		if err := b.takeTurns(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// prepare makes the report, without samples, and warms all contestants up.
func (b *bench) prepare(ctx context.Context) (*report, error) {
	version, err := serverVersion(ctx, b.admin)
	r := &report{redis: version, plan: b.plan, turns: map[string][]turn{}}
	for _, st := range states {
		var row []result
		for _, c := range b.contestants {
			res := result{state: st, contestant: c.name(), used: usages{}}
			err = b.withLimiter(ctx, err, &res, func(limiter string) (err error) {
				res.allocs, err = c.prepare(ctx, limiter, b.plan)
				return err
			})
			row = append(row, res)
		}
		r.results = append(r.results, row)
	}
	return r, err
}

// withLimiter calls f with a new limiter in the state of res, unless there is an
// error already, and says in its own where it happened.
func (b *bench) withLimiter(ctx context.Context, err error, res *result, f func(limiter string) error) error {
	if err != nil {
		return err
	}
	limiter, remove, err := b.limiter(ctx, res.state)
	defer remove()
	if err == nil {
		err = f(limiter)
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w", res.contestant, res.state.name, err)
	}
	return nil
}

// round gives each contestant a batch in each state. Who begins changes from
// round to round: what one does may be felt by the next.
func (b *bench) round(ctx context.Context, r *report, number int) (err error) {
	for _, row := range r.results {
		for i := range row {
			n := (i + number) % len(row)
			err = b.withLimiter(ctx, err, &row[n], func(limiter string) error {
				return b.measure(ctx, b.contestants[n], &row[n], limiter)
			})
		}
	}
	return err
}

// measure adds a sample to res.
func (b *bench) measure(ctx context.Context, c contestant, res *result, limiter string) error {
	if err := b.settle(ctx, c, res.state, limiter); err != nil {
		return err
	}
	var s sample
	err := b.time(ctx, c, res, limiter, &s)
	if err == nil {
		err = b.weigh(ctx, c, limiter, &s)
	}
	res.samples = append(res.samples, s)
	return err
}

// settle brings the limiter into its state, and all that is used into the
// caches, by a batch that is not measured or as many as it takes.
func (b *bench) settle(ctx context.Context, c contestant, st state, limiter string) error {
	for start := time.Now(); ; {
		if _, err := c.calls(ctx, direct, limiter, b.batch); err != nil || time.Since(start) >= st.settle {
			return err
		}
	}
}

// time measures how long calls take, in Redis and for their caller.
func (b *bench) time(ctx context.Context, c contestant, res *result, limiter string, s *sample) error {
	if err := resetUsages(ctx, b.admin); err != nil {
		return err
	}
	n, got, err := b.calls(ctx, c, res.state, limiter)
	if err != nil {
		return err
	}
	used, err := readUsages(ctx, b.admin)
	if err != nil {
		return err
	}
	s.p50, s.p99 = micros(got.p50), micros(got.p99)
	if s.redis, err = used.ofScripts(n); err != nil {
		return err
	}
	if !res.state.cold {
		res.used.add(used)
		res.scripts += n
	}
	return res.state.check(got.granted, n)
}

// calls asks n times in the way of the state: in a row, or each after noise.
func (b *bench) calls(ctx context.Context, c contestant, st state, limiter string) (n int, got outcome, err error) {
	if st.cold {
		got, err = b.coldCalls(ctx, c, limiter)
		return b.cold, got, err
	}
	got, err = c.calls(ctx, direct, limiter, b.batch)
	return b.batch, got, err
}

func (b *bench) coldCalls(ctx context.Context, c contestant, limiter string) (all outcome, err error) {
	took := make([]time.Duration, b.cold)
	for i := range took {
		if err := b.noise.make(ctx); err != nil {
			return outcome{}, err
		}
		got, err := c.calls(ctx, direct, limiter, 1)
		if err != nil {
			return outcome{}, err
		}
		took[i] = got.p50
		all.granted += got.granted
	}
	all.p50, all.p99 = quantile(took, 0.50), quantile(took, 0.99)
	return all, nil
}

// weigh counts what goes over the wire, once the connection stands.
func (b *bench) weigh(ctx context.Context, c contestant, limiter string, s *sample) error {
	if _, err := c.calls(ctx, proxied, limiter, 1); err != nil {
		return err
	}
	in, out, requests, _ := b.proxy.Stats()
	if _, err := c.calls(ctx, proxied, limiter, b.wire); err != nil {
		return err
	}
	nowIn, nowOut, nowRequests, _ := b.proxy.Stats()
	n := float64(b.wire)
	s.trips = float64(nowRequests-requests) / n
	s.sent, s.received = float64(nowIn-in)/n, float64(nowOut-out)/n
	return nil
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

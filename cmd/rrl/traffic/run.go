package traffic

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A clock is set by hand.
type clock struct {
	start time.Time
	at    atomic.Int64 // ns since the start
}

// newClock returns a clock that begins with an interval, for windows that follow the time of day.
func newClock(per time.Duration) *clock {
	const someday = 1_800_000_000 * time.Second
	return &clock{start: time.Unix(0, int64(someday.Truncate(per)))}
}

func (c *clock) now() time.Time { return c.start.Add(time.Duration(c.at.Load())) }

func (c *clock) set(at time.Duration) { c.at.Store(int64(at)) }

// A lane is a limiter of one algorithm, and the behaviour of its requests.
type lane struct {
	name    string
	limiter limit.Limiter
	set     func(at time.Duration) // the clock of the limiter
	left    func(ctx context.Context) (float64, error)
	waits   int64         // how many requests may wait; 0: a refused request has failed
	hold    time.Duration // after this time a permit is given back; 0: never
	err     error         // of making the limiter
}

// A Strip is the results of one limiter.
type Strip struct {
	Name   string          `json:"name"`
	Grants []time.Duration `json:"-"` // in the order of their times
	Left   []float64       `json:"-"` // samples of the remaining part of the limit, 0 to 1; nil if unknown
	Figures
}

// bin returns the time of a bar of a picture.
func (p *Plan) bin(t Traffic) time.Duration {
	const perInterval, most = 10, 120
	return max(p.Per/perInterval, (t.Length+most-1)/most)
}

// step returns the time between two samples of the remaining part. A bin has a whole number of samples.
func (p *Plan) step(t Traffic) time.Duration {
	const most = 240
	bin := p.bin(t)
	if 4*t.Length <= most*bin {
		return bin / 4
	}
	return bin / 2
}

// never is later than any time.
const never = time.Duration(math.MaxInt64)

// A run sends a traffic through a lane, in the order of time. At one time, permits are given back first, and
// a waiting request comes before a new one.
type run struct {
	lane
	requests []time.Duration // in the future
	line     []time.Duration // waiting
	turn     time.Duration
	work     []time.Duration // when to give back a permit
	step     time.Duration
	sample   time.Duration
	end      time.Duration // after the last sample
	strip    *Strip
}

// through sends a traffic through a lane.
func (p *Plan) through(ctx context.Context, l lane, t Traffic) (*Strip, error) {
	if l.err != nil {
		return nil, l.err
	}
	r := &run{
		lane: l, requests: t.Requests, turn: never, step: p.step(t), end: t.Length,
		strip: &Strip{Name: l.name},
	}
	if l.left == nil && l.waits == 0 {
		r.sample = never
	}
	for {
		at, do := r.next()
		if at == never {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.set(at)
		if err := do(ctx, at); err != nil {
			return nil, err
		}
	}
	r.strip.Figures.of(p, t, r.strip.Grants)
	return r.strip, nil
}

// next returns the next event.
func (r *run) next() (at time.Duration, do func(ctx context.Context, at time.Duration) error) {
	at, do = r.sample, r.look
	if len(r.requests) > 0 && r.requests[0] <= at {
		at, do = r.requests[0], r.arrive
	}
	if len(r.line) > 0 && r.turn <= at {
		at, do = r.turn, r.head
	}
	if len(r.work) > 0 && r.work[0] <= at {
		at, do = r.work[0], r.giveBack
	}
	return at, do
}

// look takes a sample.
func (r *run) look(ctx context.Context, _ time.Duration) error {
	left := 1 - float64(len(r.line))/float64(max(1, r.waits))
	if r.left != nil {
		var err error
		if left, err = r.left(ctx); err != nil {
			return err
		}
	}
	r.strip.Left = append(r.strip.Left, left)
	if r.sample += r.step; r.sample > r.end {
		r.sample = never
	}
	return nil
}

// arrive asks for a new request.
func (r *run) arrive(ctx context.Context, at time.Duration) error {
	r.requests = r.requests[1:]
	if len(r.line) > 0 {
		r.wait(at)
		return nil
	}
	result, err := r.ask(ctx, at)
	if err == nil && !result.Allowed && r.waits > 0 {
		r.wait(at)
		r.turn = at + result.RetryAfter
	}
	return err
}

// wait adds a request to the line, if there is room.
func (r *run) wait(since time.Duration) {
	if int64(len(r.line)) < r.waits {
		r.line = append(r.line, since)
	}
}

// head asks again for the head of the line.
func (r *run) head(ctx context.Context, at time.Duration) error {
	result, err := r.ask(ctx, at)
	if err != nil {
		return err
	}
	if !result.Allowed {
		r.turn = at + max(result.RetryAfter, time.Microsecond)
		return nil
	}
	r.strip.Wait = max(r.strip.Wait, Millis(at-r.line[0]))
	r.line = r.line[1:]
	return nil
}

// ask asks the limiter for a permit, and records a grant.
func (r *run) ask(ctx context.Context, at time.Duration) (limit.Result, error) {
	result, err := r.limiter.Allow(ctx, 1)
	if err != nil || !result.Allowed {
		return result, err
	}
	r.strip.Grants = append(r.strip.Grants, at)
	if r.hold > 0 {
		r.work = append(r.work, at+r.hold)
	}
	return result, nil
}

// giveBack ends the oldest request at work.
func (r *run) giveBack(ctx context.Context, _ time.Duration) error {
	r.work = r.work[1:]
	return r.limiter.(limit.Releaser).Release(ctx, 1)
}

// A Plan is a limit.
type Plan struct {
	Rate int64         // 1 to 4,000 permits
	Per  time.Duration // the interval: 10 ms to 24 h, a whole number of ms
}

// The bounds of a Plan.
const (
	shortestPer = 10 * time.Millisecond // so that a tenth of it is a whole ms
	longestPer  = 24 * time.Hour
)

// Validate returns an error if the flag --rate is out of its bounds.
func (p *Plan) Validate() error {
	if p.Rate < 1 || p.Rate > MostRequests {
		return fmt.Errorf("--rate is of %d permits, must be of 1 to %d", p.Rate, MostRequests)
	}
	if p.Per < shortestPer || p.Per > longestPer || p.Per%time.Millisecond != 0 {
		return fmt.Errorf("--rate has an interval of %v, must be %v to %v, a whole number of ms",
			p.Per, shortestPer, longestPer)
	}
	return nil
}

// hold returns how long a request is at work, for the limit of concurrency.
func (p *Plan) hold() time.Duration { return (p.Per / 4).Truncate(time.Millisecond) }

// atOnce returns the limit of concurrency: the number of requests at work if requests come at the rate.
func (p *Plan) atOnce() int64 {
	return int64((time.Duration(p.Rate)*p.hold() + p.Per - 1) / p.Per)
}

// A Comparison is the result of a Traffic.
type Comparison struct {
	Plan    Plan
	Traffic Traffic
	Strips  []*Strip // one for each algorithm
}

// Run sends the traffic through a limiter of each algorithm.
func (p Plan) Run(ctx context.Context, t Traffic) (*Comparison, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	strip, err := p.rratelimiter(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("RRateLimiter: %w", err)
	}
	c := &Comparison{Plan: p, Traffic: t, Strips: []*Strip{strip}}
	for _, l := range p.lanes() {
		strip, err := p.through(ctx, l, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		c.Strips = append(c.Strips, strip)
	}
	return c, nil
}

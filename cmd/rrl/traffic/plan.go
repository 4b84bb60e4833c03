package traffic

import (
	"context"
	"fmt"
	"time"
)

// A Plan is a limit and its settings for the algorithms.
type Plan struct {
	Rate     int64         // 1 to 1,000,000 permits
	Per      time.Duration // the interval: 10 ms to 24 h, a whole number of ms
	Capacity int64         // of the buckets and of the queue; 0: the rate
	Hold     time.Duration // how long a request is at work; 0: a quarter of Per
}

// The bounds of a Plan.
const (
	mostRate     = 1_000_000
	shortestPer  = 10 * time.Millisecond // so that a tenth of it is a whole ms
	longestPer   = 24 * time.Hour
	shortestHold = time.Millisecond
)

// Validate sets the defaults, and returns an error that names the flag that is out of its bounds.
func (p *Plan) Validate() error {
	if p.Rate < 1 || p.Rate > mostRate {
		return fmt.Errorf("--rate is %d, must be 1 to %d", p.Rate, mostRate)
	}
	if p.Per < shortestPer || p.Per > longestPer || p.Per%time.Millisecond != 0 {
		return fmt.Errorf("--per is %v, must be %v to %v, a whole number of ms",
			p.Per, shortestPer, longestPer)
	}
	if p.Capacity == 0 {
		p.Capacity = p.Rate
	}
	if p.Capacity < 1 || p.Capacity > mostRate {
		return fmt.Errorf("--capacity is %d, must be 1 to %d", p.Capacity, mostRate)
	}
	if p.Hold == 0 {
		p.Hold = max(shortestHold, (p.Per / 4).Truncate(time.Millisecond))
	}
	if p.Hold < shortestHold || p.Hold > p.Per || p.Hold%time.Millisecond != 0 {
		return fmt.Errorf("--hold is %v, must be %v to --per, which is %v; a whole number of ms",
			p.Hold, shortestHold, p.Per)
	}
	return nil
}

// AtOnce returns the limit of concurrency: the number of requests at work if requests come at the rate.
func (p *Plan) AtOnce() int64 {
	return int64((time.Duration(p.Rate)*p.Hold + p.Per - 1) / p.Per)
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
		return nil, fmt.Errorf("%s: %w", rratelimiterName, err)
	}
	c := &Comparison{Plan: p, Traffic: t, Strips: []*Strip{strip}}
	for _, a := range p.algorithms() {
		clock := newClock(p.Per)
		lane, err := a.lane(clock)
		if err != nil {
			return nil, err
		}
		strip, err := p.through(ctx, lane, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		c.Strips = append(c.Strips, strip)
	}
	return c, nil
}

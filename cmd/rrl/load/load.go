// Package load makes load on a limiter and measures it in bounded memory.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/pause"
)

// The bounds of a Plan.
const (
	MostCallers = 10_000
	Longest     = time.Hour
)

// A Plan is the load to make.
type Plan struct {
	Callers int           // callers at once, 1 to MostCallers
	Permits int64         // for each call
	Timeout time.Duration // of each call; 0 does not wait
	Rate    float64       // the most calls per second of all callers together; 0 for no bound
	For     time.Duration // after which no more calls start, at most Longest
	Calls   int64         // calls to make; 0 for no bound
}

// Validate returns an error that names the flag that is out of its bounds.
func (p *Plan) Validate() error {
	switch {
	case p.Callers < 1 || p.Callers > MostCallers:
		return fmt.Errorf("--callers is %d, must be between 1 and %d", p.Callers, MostCallers)
	case p.Permits < 1:
		return fmt.Errorf("--permits is %d, must be at least 1", p.Permits)
	case p.Timeout < 0 || p.Timeout > Longest:
		return fmt.Errorf("--timeout is %v, must be between 0 and %v", p.Timeout, Longest)
	case !(p.Rate == 0 || p.Rate >= lowest && p.Rate <= highest): // not a number is neither
		return fmt.Errorf("--rate is %v, must be 0, or between %v and %v", p.Rate, lowest, highest)
	case p.For < time.Millisecond || p.For > Longest:
		return fmt.Errorf("--for is %v, must be between 1ms and %v", p.For, Longest)
	case p.Calls < 0:
		return fmt.Errorf("--calls is %d, must be at least 0", p.Calls)
	}
	return nil
}

// The rates for which the time between two calls is a sensible time.Duration.
const lowest, highest = 0.001, 1e6

// afterError is how long a caller waits after an error, so that it does not fail in a busy loop.
const afterError = 100 * time.Millisecond

// A Run is a load in progress.
type Run struct {
	plan    Plan
	limiter *rratelimiter.RateLimiter
	start   time.Time
	begun   atomic.Int64 // calls

	mu     sync.Mutex // guards the figures
	fig    figures
	config rratelimiter.Config
}

// New returns a run for a limiter with a rate. Do starts it.
func New(limiter *rratelimiter.RateLimiter, config rratelimiter.Config, plan Plan) *Run {
	return &Run{limiter: limiter, config: config, plan: plan}
}

// Do makes the load, until the plan is carried out or ctx ends, and returns the measurements. One goroutine
// calls progress at intervals of every.
func (r *Run) Do(ctx context.Context, every time.Duration, progress func(Progress)) *Report {
	r.start = time.Now()
	r.fig = newFigures(r.start, r.config.Interval)
	stop := make(chan struct{})
	var callers, reporter sync.WaitGroup
	reporter.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				progress(r.progress())
			case <-stop:
				return
			}
		}
	})
	for range r.plan.Callers {
		callers.Go(func() { r.call(ctx) })
	}
	callers.Wait()
	close(stop)
	reporter.Wait()
	return r.report(ctx)
}

// call is one caller.
func (r *Run) call(ctx context.Context) {
	end := r.start.Add(r.plan.For)
	for {
		n := r.begun.Add(1) - 1
		if r.plan.Calls > 0 && n >= r.plan.Calls {
			return
		}
		due := time.Now()
		if r.plan.Rate > 0 {
			due = r.start.Add(time.Duration(float64(n) / r.plan.Rate * float64(time.Second)))
		}
		if !due.Before(end) || !wait(ctx, due) || !time.Now().Before(end) {
			return
		}
		begin := time.Now()
		ok, err := r.limiter.TryAcquire(ctx, r.plan.Permits, r.plan.Timeout)
		done := time.Now()
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return // it was interrupted, and has not failed
		}
		r.note(begin, done, ok, err)
		if err != nil && !wait(ctx, done.Add(afterError)) {
			return
		}
	}
}

// wait waits until a moment. It reports false if ctx ends before.
func wait(ctx context.Context, until time.Time) bool {
	return pause.For(ctx, time.Until(until)) == nil
}

// note records a call.
func (r *Run) note(begin, end time.Time, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.fig.fail(err)
	case ok:
		r.fig.granted.add(end.Sub(begin))
		r.fig.window.Add(begin, end, r.plan.Permits)
	default:
		r.fig.refused.add(end.Sub(begin))
	}
}

// Progress is the progress of a run.
type Progress struct {
	Done                     float64 // of the plan, 0 to 1
	Granted, Refused, Failed int64   // calls
}

func (r *Run) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Granted: r.fig.granted.calls(), Refused: r.fig.refused.calls(), Failed: r.fig.failed}
	p.Done = time.Since(r.start).Seconds() / r.plan.For.Seconds()
	if r.plan.Calls > 0 {
		p.Done = max(p.Done, float64(p.Granted+p.Refused+p.Failed)/float64(r.plan.Calls))
	}
	p.Done = min(p.Done, 1)
	return p
}

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onsi/gomega/gleak"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	// warmth is how long all work before something breaks, and again after both sides
	// are served.
	warmth = 450 * time.Millisecond
	// patience is how long both sides may take to be served again. Redisson takes
	// longest: it looks for a lost master only now and then.
	patience = 30 * time.Second
)

// A Round is one fault, and the callers on one limiter meanwhile.
type Round struct {
	*Testbed
	Fault  Fault
	Name   string // of the limiter
	Log    *grants.Log
	look   redis.UniversalClient // for looking at keys
	report *Report
	golang *callers
	java   *javaSide
}

// Play plays a fault. Its error is of the testbed; what the callers saw is in the
// report.
func (s *Testbed) Play(ctx context.Context, f Fault) (*Report, error) {
	before := gleak.Goroutines()
	r := &Round{Testbed: s, Fault: f, Name: redistest.Name(s.t), Log: &grants.Log{}, look: s.look(),
		report: newReport(f)}
	if err := r.setRate(ctx); err != nil {
		return r.report, errors.Join(err, r.look.Close())
	}
	machine := startControl()
	err := r.work(ctx)
	machine.end()
	if err == nil {
		r.judge(machine)
		err = r.settle(ctx)
	}
	if r.golang != nil {
		err = errors.Join(err, r.golang.close())
	}
	err = errors.Join(err, r.look.Close())
	if err == nil {
		r.leaks(ctx, before, patience)
	}
	return r.report, err
}

func (r *Round) setRate(ctx context.Context) error {
	c := rratelimiter.New(r.look)
	limit := r.setup.limit()
	err := c.RateLimiter(r.Name).SetRate(ctx, rratelimiter.Overall, limit.Rate, limit.Interval)
	return errors.Join(err, c.Close())
}

// work has both sides work while the fault is there, and until all is well again.
func (r *Round) work(ctx context.Context) (err error) {
	r.golang = r.startCallers(ctx, r.Name, r.Log)
	if r.java, err = r.startJava(ctx, r.Name, r.Log); err != nil {
		r.golang.end()
		return err
	}
	defer func() {
		stopped := make(chan error)
		go func() { stopped <- r.java.end(ctx) }()
		r.golang.end()
		err = errors.Join(err, <-stopped)
	}()
	if err := r.served(ctx, time.Now(), patience); err != nil {
		return fmt.Errorf("before %s: %w", r.Fault, err)
	}
	wait(ctx, warmth)
	broke := time.Now()
	if err := r.Fault.Break(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", r.Fault, err)
	}
	healed := time.Now()
	if r.Fault.Unlimited != "" {
		r.unlimited(broke, healed)
	}
	if err := r.served(ctx, healed, patience); err != nil {
		r.report.wrong("not well after %v: %v", patience, err)
	}
	wait(ctx, warmth)
	return nil
}

// unlimited notes that the limit did not hold between two moments, and not for an
// interval around them either. Clocks of Clients are wrong from the beginning to the end.
func (r *Round) unlimited(from, to time.Time) {
	around := r.setup.limit().Interval
	if r.setup.Clocks != nil {
		around = time.Hour
	}
	from, to = from.Add(-around), to.Add(around)
	r.Log.Lose(grants.Loss{From: from, To: to, Since: from, Why: r.Fault.Unlimited})
}

// served waits until both sides were granted permits that were asked for after a
// moment, and notes how long that took.
func (r *Round) served(ctx context.Context, since time.Time, patience time.Duration) error {
	const look = 20 * time.Millisecond
	r.report.Back, r.report.JavaBack = 0, 0
	for {
		golang, java := r.golang.servedSince(since), r.java.servedSince(ctx, since)
		took := time.Since(since)
		if golang == nil && r.report.Back == 0 {
			r.report.Back = took
		}
		if java == nil && r.report.JavaBack == 0 {
			r.report.JavaBack = took
		}
		if golang == nil && java == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if took > patience {
			return errors.Join(golang, java)
		}
		wait(ctx, look)
	}
}

// judge looks at what the callers saw.
func (r *Round) judge(machine *control) {
	r.report.Worst = r.setup.limit().Worst(r.Log, grants.Slack)
	if err := r.setup.limit().Check(r.Log); err != nil {
		r.report.wrong("over the limit: %v", err)
	}
	r.report.Losses = r.Log.Losses()
	g := r.golang
	r.report.Calls, r.report.Granted, r.report.Errors = len(g.calls), g.granted, g.errors
	if r.setup.Leased && g.leases.Load() == 0 {
		r.report.wrong("nothing was leased")
	}
	for kind, text := range g.texts {
		if !r.Fault.mayBe(kind) {
			r.report.wrong("%d times %s: %s", g.errors[kind], kind, text)
		}
	}
	for _, e := range g.calls {
		late := e.at.Sub(e.due)
		if late > 0 { // the machine's part is no part of it
			late = max(0, late-machine.excuse(e.due, e.at))
		}
		r.report.Late.add(late)
	}
	if late := r.report.Late.Quantile(1); late > tolerance {
		r.report.wrong("a caller of Go was late by %v, at most %v is allowed", late, tolerance)
	}
	if j := r.java; j != nil {
		r.report.JavaGranted, r.report.JavaErrors, r.report.JavaStuck = j.granted, j.errors, j.stuck
	}
}

// settle waits for an interval after the last call and expects all permits to be back,
// and the keys to say so. A record of a clock that was wrong stays for a tenth longer.
func (r *Round) settle(ctx context.Context) error {
	const later = 20 * time.Millisecond
	span := r.setup.limit().Interval
	if r.setup.Leased {
		span += span / 20 // a lease that was not settled
	}
	if r.Fault.Unlimited != "" {
		span += r.setup.limit().Interval / 10
	}
	ended := time.Now()
	c := rratelimiter.New(r.look)
	defer c.Close()
	l := c.RateLimiter(r.Name)
	if r.Fault.Unlimited != "" {
		// An acquire that needs the permits of records of the future puts them right; reading
		// writes nothing.
		if _, err := l.TryAcquire(ctx, r.setup.limit().Rate, 0); err != nil {
			return err
		}
	}
	wait(ctx, span+later)
	left, err := l.AvailablePermits(ctx)
	if err != nil {
		return err
	}
	if r.report.Lost = r.setup.limit().Rate - left; r.report.Lost != 0 {
		err = until(ctx, func() error {
			if left, err = l.AvailablePermits(ctx); err == nil && left != r.setup.limit().Rate {
				err = errors.New("some are not back yet")
			}
			return err
		})
		r.report.wrong("%d permits were lost for %v (%v)", r.report.Lost, time.Since(ended), err)
	}
	if ok, err := l.TryAcquire(ctx, 1, 0); !ok || err != nil {
		return fmt.Errorf("nothing is granted in the end: %w", err)
	}
	return r.invariant(ctx)
}

// invariant expects what is left and what is outstanding to add up to the rate.
func (r *Round) invariant(ctx context.Context) error {
	l, err := inspect.Read(ctx, r.look, r.Name, inspect.Most)
	if err != nil {
		return err
	}
	if p := l.Shared(); !p.Checked || !p.HasValue || p.Drift != 0 {
		r.report.wrong("in the end %s are left and %d outstanding of %d", p.Value, p.Outstanding+p.Over,
			r.setup.limit().Rate)
	}
	return nil
}

// leaks expects the goroutines of the callers to end. Those of go-redis that dial a
// dead server take some seconds. The proxies and servers of the testbed go on.
func (r *Round) leaks(ctx context.Context, before []gleak.Goroutine, patience time.Duration) {
	leaked := gleak.HaveLeaked(before)
	err := poll(ctx, patience, func() error {
		var left []gleak.Goroutine
		for _, g := range gleak.Goroutines() {
			if !strings.Contains(g.Backtrace, "internal/redistest") {
				left = append(left, g)
			}
		}
		if more, err := leaked.Match(left); !more || err != nil {
			return err
		}
		return errors.New(leaked.NegatedFailureMessage(left))
	})
	if err != nil {
		r.report.wrong("goroutines are left: %v", err)
	}
}

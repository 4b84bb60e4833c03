package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	// warmth is how long both sides work before something breaks, and again after both
	// are served.
	warmth = 450 * time.Millisecond
	// patience is how long both sides may take to be served again. Redisson takes
	// longest: it seldom looks for a lost master.
	patience = 30 * time.Second
	// tolerance is how late a caller may be on a busy machine: less than the attempts of go-redis take on
	// a silent server. Tests in fake time prove the promise of 30 ms (test/fallback, test/waiting).
	tolerance = 2 * time.Second
)

// A Round is one fault, and the callers of one limiter meanwhile.
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

// Play plays a fault and returns what the callers saw. If the testbed fails, so does t.
func (s *Testbed) Play(t testing.TB, f Fault) *Report {
	testbed := *s
	testbed.t = t
	r := &Round{Testbed: &testbed, Fault: f, Name: redistest.Name(t), Log: &grants.Log{}, look: s.look(),
		report: &Report{Fault: f.Name, Limit: f.Setup.limit()}}
	defer r.look.Close()
	r.setRate()
	r.work()
	r.judge()
	r.settle()
	r.must(r.golang.close())
	return r.report
}

func (r *Round) setRate() {
	c := rratelimiter.New(r.look)
	defer c.Close()
	limit := r.setup.limit()
	r.must(c.RateLimiter(r.Name).SetRate(r.ctx, rratelimiter.Overall, limit.Rate, limit.Interval))
}

// work runs both sides during the fault, and until both are served again.
func (r *Round) work() {
	r.golang = r.startCallers()
	defer r.golang.end()
	r.java = r.startJava()
	defer func() { // also if the testbed fails; both sides end at the same time
		stopped := make(chan error)
		go func() { stopped <- r.java.end(r.ctx) }()
		r.golang.end()
		r.must(<-stopped)
	}()
	if err := r.served(time.Now()); err != nil {
		r.t.Fatalf("before %s: %v", r.Fault.Name, err)
	}
	r.wait(warmth)
	r.Fault.Break(r)
	healed := time.Now()
	if err := r.served(healed); err != nil {
		r.report.wrong("not well after %v: %v", patience, err)
	}
	r.wait(warmth)
}

// served waits until both sides were granted permits that they asked for after since,
// and notes how long that took.
func (r *Round) served(since time.Time) error {
	const look = 20 * time.Millisecond
	r.report.Back, r.report.JavaBack = 0, 0
	for {
		golang, java := r.golang.servedSince(since), r.java.servedSince(r.ctx, since)
		took := time.Since(since)
		if golang == nil && r.report.Back == 0 {
			r.report.Back = took
		}
		if java == nil && r.report.JavaBack == 0 {
			r.report.JavaBack = took
		}
		if golang == nil && java == nil || r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if took > patience {
			return errors.Join(golang, java)
		}
		r.wait(look)
	}
}

// judge reports what the callers saw.
func (r *Round) judge() {
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
		r.report.Late = max(r.report.Late, e.at.Sub(e.due))
	}
	if late := r.report.Late; late > tolerance {
		r.report.wrong("a caller of Go was late by %v, at most %v is allowed", late, tolerance)
	}
	if j := r.java; j != nil {
		r.report.JavaGranted, r.report.JavaErrors, r.report.JavaStuck = j.granted, j.errors, j.stuck
	}
}

// settle waits for an interval after the last call and expects all permits to be back in
// the keys.
func (r *Round) settle() {
	const later = 20 * time.Millisecond
	rate, span := r.setup.limit().Rate, r.setup.limit().Interval
	if r.setup.Leased {
		span += span / 20 // a lease that was not settled
	}
	ended := time.Now()
	c := rratelimiter.New(r.look)
	defer c.Close()
	l := c.RateLimiter(r.Name)
	r.wait(span + later)
	left := redistest.Must(l.AvailablePermits(r.ctx))(r.t)
	if r.report.Lost = rate - left; r.report.Lost != 0 {
		for time.Since(ended) < patience && left != rate {
			r.wait(10 * time.Millisecond)
			left = redistest.Must(l.AvailablePermits(r.ctx))(r.t)
		}
		r.report.wrong("%d permits were lost for %v", r.report.Lost, time.Since(ended))
	}
	if ok, err := l.TryAcquire(r.ctx, 1, 0); !ok || err != nil {
		r.t.Fatalf("nothing is granted in the end: %v", err)
	}
	r.invariant()
}

// invariant expects the value and the outstanding permits to add up to the rate.
func (r *Round) invariant() {
	l := redistest.Must(inspect.Read(r.ctx, r.look, r.Name, inspect.Most))(r.t)
	if p := l.Shared(); !p.Checked || !p.HasValue || p.Drift != 0 {
		r.report.wrong("in the end %s are left and %d outstanding of %d", p.Value, p.Outstanding+p.Over,
			r.setup.limit().Rate)
	}
}

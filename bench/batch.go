package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A sample is what one batch of callers showed.
type sample struct {
	perSecond      float64 // acquires
	p50, p99, p999 float64 // µs until a caller has its answer
	cpu            float64 // µs of the process of Redis per acquire
	script         float64 // µs of those within scripts, as Redis counts them
	calls          float64 // script calls per acquire
	allocs         float64 // Go allocations per acquire, or noAllocs
}

// noAllocs stands for allocations where none are counted: in Java.
const noAllocs = -1

// errRefused is an acquire that was refused where the limit allows everything.
// Measuring refusals as grants would flatter a contestant.
var errRefused = errors.New("an acquire was refused")

// The spans of a batch, in ms of wall clock. The warm-up is longer than the
// interval of the limiters. The measured second is long enough for a p99.9.
const (
	warmup = 200 * time.Millisecond
	span   = time.Second
)

// spans returns the warm-up and the measured span of a batch.
func (s *scope) spans() (before, measured time.Duration) {
	return amount(s, warmup, 10*time.Millisecond), amount(s, span, 20*time.Millisecond)
}

// A crowd is a batch under way: callers that ask in a tight loop.
type crowd struct {
	phase atomic.Int32
	hists [8]hist // several, so that callers on different cores seldom share one
	once  sync.Once
	err   error // why it ended early; set by once
}

// The phases of a crowd.
const (
	warming int32 = iota
	measuring
	ended
)

// caller asks until the batch ends. It reads the clock once per call, as the
// Java peer does: the end of a call is the start of the next.
func (c *crowd) caller(i int, once ask) {
	h := &c.hists[i%len(c.hists)]
	ctx := context.Background() // as callers that do not wait usually have it
	last := time.Now()
	for {
		ok, err := once(ctx)
		now := time.Now()
		if err == nil && !ok {
			err = errRefused
		}
		if err != nil {
			c.once.Do(func() { c.err = err })
			c.phase.Store(ended)
			return
		}
		switch c.phase.Load() {
		case measuring:
			h.add(now.Sub(last))
		case ended:
			return
		}
		last = now
	}
}

// runBatch lets callers ask, one for each of asks, and measures them after the
// warm-up.
func (s *scope) runBatch(ctx context.Context, admin *redis.Client, asks []ask) (sample, error) {
	var (
		c                       crowd
		all                     sync.WaitGroup
		memBefore, memAfter     runtime.MemStats
		usageBefore, usageAfter usage
	)
	for i, once := range asks {
		all.Go(func() { c.caller(i, once) })
	}
	before, measured := s.spans()
	time.Sleep(before)
	usageBefore, err := readUsage(ctx, admin)
	runtime.ReadMemStats(&memBefore)
	start := time.Now()
	c.phase.CompareAndSwap(warming, measuring) // unless an error has ended it
	time.Sleep(measured)
	c.phase.Store(ended)
	took := time.Since(start)
	runtime.ReadMemStats(&memAfter)
	if err == nil {
		usageAfter, err = readUsage(ctx, admin)
	}
	all.Wait() // before the error: no caller outlives its batch
	if err = errors.Join(err, c.err, ctx.Err()); err != nil {
		return sample{}, err
	}
	// What the callers did in the warm-up is in no histogram, and the counts of
	// Redis and of Go were taken at the same moments as the clock.
	var h hist
	h.merge(c.hists[:])
	n := float64(max(1, h.total()))
	used := usageAfter.since(usageBefore)
	scripts := used.scripts()
	return sample{
		perSecond: n / took.Seconds(),
		p50:       micros(h.quantile(0.50)), p99: micros(h.quantile(0.99)), p999: micros(h.quantile(0.999)),
		cpu: used.cpu * 1e6 / n, script: scripts.usec / n, calls: scripts.calls / n,
		allocs: float64(memAfter.Mallocs-memBefore.Mallocs) / n,
	}, nil
}

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

// ask asks for one permit.
type ask func(ctx context.Context) (bool, error)

// A sample is what one batch has shown.
type sample struct {
	perSecond      float64 // acquires
	p50, p99, p999 float64 // µs until a caller has its answer
	cpu            float64 // µs of the process of Redis for each acquire
	script         float64 // µs of those within scripts, as Redis counts them
	calls          float64 // script calls for each acquire
	allocs         float64 // of Go for each acquire; noAllocs: it is not in Go
}

const noAllocs = -1

// A crowd is a batch under way: callers that ask in a tight loop.
type crowd struct {
	phase atomic.Int32
	hists [8]hist // shared by the callers, so that few of them meet
	once  sync.Once
	err   error // why it has ended early
}

// The phases of a crowd.
const (
	warming int32 = iota
	measuring
	ended
)

// caller asks until the end. It reads the clock once per call, as the Java peer
// does: the end of a call is the start of the next.
func (c *crowd) caller(i int, once ask) {
	h := &c.hists[i%len(c.hists)]
	ctx := context.Background() // what most callers have that do not wait
	last := time.Now()
	for {
		ok, err := once(ctx)
		now := time.Now()
		if err == nil && !ok {
			err = errors.New("an acquire was refused")
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

// runBatch lets callers ask, one for each of asks, and measures them after a
// warm-up.
func runBatch(ctx context.Context, admin *redis.Client, asks []ask, pl plan) (sample, error) {
	var (
		c                       crowd
		all                     sync.WaitGroup
		memBefore, memAfter     runtime.MemStats
		usageBefore, usageAfter usage
	)
	for i, once := range asks {
		all.Go(func() { c.caller(i, once) })
	}
	time.Sleep(pl.warmup)
	usageBefore, err := readUsage(ctx, admin)
	runtime.ReadMemStats(&memBefore)
	start := time.Now()
	c.phase.CompareAndSwap(warming, measuring)
	time.Sleep(pl.span)
	c.phase.Store(ended)
	took := time.Since(start)
	runtime.ReadMemStats(&memAfter)
	if err == nil {
		usageAfter, err = readUsage(ctx, admin)
	}
	all.Wait()
	if err = errors.Join(err, c.err, ctx.Err()); err != nil {
		return sample{}, err
	}
	var h hist
	h.merge(c.hists[:])
	n := float64(max(1, h.total()))
	used := usageAfter.since(usageBefore)
	return sample{
		perSecond: n / took.Seconds(),
		p50:       micros(h.quantile(0.50)), p99: micros(h.quantile(0.99)), p999: micros(h.quantile(0.999)),
		cpu: used.cpu * 1e6 / n, script: used.usec / n, calls: used.scripts / n,
		allocs: float64(memAfter.Mallocs-memBefore.Mallocs) / n,
	}, nil
}

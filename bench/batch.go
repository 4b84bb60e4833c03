package main

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An ask asks for one permit, and reports whether it was granted.
type ask func(ctx context.Context) (bool, error)

// A sample is what one batch of callers showed.
type sample struct {
	PerSecond      num // acquires
	P50, P99, P999 num // µs until a caller has its answer
	CPU            num // µs of the process of Redis per acquire
	Script         num // µs of those within scripts, as Redis counts them
	Calls          num // script calls per acquire
	Allocs         num // Go allocations per acquire, or noAllocs
}

// A row holds the medians of one contestant.
type row struct {
	Name string
	sample
}

// The figures of a sample that are compared.
func perSecond(s sample) num { return s.PerSecond }
func p50(s sample) num       { return s.P50 }
func p99(s sample) num       { return s.P99 }
func cpu(s sample) num       { return s.CPU }

// noAllocs stands for allocations where none are counted: in Java.
const noAllocs = -1

// allocsOf returns the Go allocations of one call, the mean over calls.
func allocsOf(ctx context.Context, once ask, calls int) (allocs num, err error) {
	allocs = num(testing.AllocsPerRun(calls, func() {
		if _, e := once(ctx); e != nil {
			err = e
		}
	}))
	return allocs, err
}

// The spans of a batch. The warm-up is longer than the interval of the limiters. The measured second is long
// enough for a p99.9.
const (
	warmup = 200 * time.Millisecond
	span   = time.Second
)

func (s *scope) spans() (before, measured time.Duration) {
	return amount(s, warmup, 10*time.Millisecond), amount(s, span, 20*time.Millisecond)
}

// A crowd is a batch under way: callers that ask in a tight loop.
type crowd struct {
	phase atomic.Int32
	hists hists
	once  sync.Once
	err   error // why it ended early; set by once
}

const (
	warming int32 = iota
	measuring
	ended
)

// caller asks until the batch ends. It reads the clock once per call, as the Java peer does: the end of a
// call is the start of the next.
func (c *crowd) caller(i int, once ask) {
	h := &c.hists[i%len(c.hists)]
	ctx := context.Background() // as callers that do not wait usually have it
	last := time.Now()
	for {
		err := granted(once(ctx))
		now := time.Now()
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

// runBatch lets callers ask, one for each of asks, and measures them after the warm-up.
func (s *scope) runBatch(ctx context.Context, admin *redis.Client, asks []ask) (sample, error) {
	var (
		c                   crowd
		all                 sync.WaitGroup
		memBefore, memAfter runtime.MemStats
		took                time.Duration
	)
	for i, once := range asks {
		all.Go(func() { c.caller(i, once) })
	}
	before, measured := s.spans()
	time.Sleep(before)
	used, err := usageDuring(ctx, admin, func() error {
		runtime.ReadMemStats(&memBefore)
		start := time.Now()
		c.phase.CompareAndSwap(warming, measuring) // unless an error has ended it
		time.Sleep(measured)
		c.phase.Store(ended)
		took = time.Since(start)
		runtime.ReadMemStats(&memAfter)
		return nil
	})
	c.phase.Store(ended)
	all.Wait() // before the error: no caller outlives its batch
	if err = errors.Join(err, c.err, ctx.Err()); err != nil {
		return sample{}, err
	}
	// What the callers did in the warm-up is in no histogram, and the counts of Redis and of Go were taken at
	// the same moments as the clock.
	h := &c.hists
	n := num(max(1, h.total()))
	return sample{
		PerSecond: n / num(took.Seconds()),
		P50:       micros(h.quantile(0.50)), P99: micros(h.quantile(0.99)), P999: micros(h.quantile(0.999)),
		CPU: used.cpu * 1e6 / n, Script: used.scripts().usec / n, Calls: used.scripts().calls / n,
		Allocs: num(memAfter.Mallocs-memBefore.Mallocs) / n,
	}, nil
}

// inParallel calls do for each number below n, by so many goroutines. A goroutine stops at its first error.
func inParallel(callers, n int, do func(i int) error) error {
	var (
		next atomic.Int64
		all  sync.WaitGroup
		errs = make([]error, callers)
	)
	for caller := range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[caller] == nil; i = int(next.Add(1)) - 1 {
				errs[caller] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// A hist counts durations in buckets. Callers of a batch can share one, and its size does not depend on how
// many calls a batch makes.
type hist struct{ counts [36 << subBits]atomic.Uint32 }

// subBits is how many bits of buckets each power of two has: with 5 a bucket is at most 3 % wide, less than
// two runs differ by.
const subBits = 5

// bucket returns the bucket of a duration. Below 32 ns buckets are exact; one bucket holds everything from
// nine minutes on.
func bucket(d time.Duration) int {
	ns := uint64(min(max(0, d), 1<<39))
	shift := max(0, bits.Len64(ns)-subBits-1)
	return shift<<subBits + int(ns>>shift)
}

func middle(bucket int) time.Duration {
	shift := max(0, bucket>>subBits-1)
	return time.Duration(bucket-shift<<subBits)<<shift + time.Duration(1)<<shift/2
}

func (h *hist) add(d time.Duration) { h.counts[bucket(d)].Add(1) }

// A hists is several, so that callers on different cores seldom share one.
type hists [8]hist

func (h *hists) total() (n int64) {
	for i := range h {
		for j := range h[i].counts {
			n += int64(h[i].counts[j].Load())
		}
	}
	return n
}

// quantile returns the least duration that a part of all, 0 to 1, does not exceed, and 0 if none was counted.
func (h *hists) quantile(part float64) time.Duration {
	left := max(1, int64(math.Ceil(part*float64(h.total()))))
	for j := range h[0].counts {
		for i := range h {
			if left -= int64(h[i].counts[j].Load()); left <= 0 {
				return middle(j)
			}
		}
	}
	return 0
}

// A scope is where one part is measured. Whatever is started in it ends with it, so that no part takes time
// from the next one.
type scope struct {
	redistest.Scope
	rounds int  // turns of each contestant
	brief  bool // it is a test: only that everything works is wanted
}

// amount returns full, or brief in a test. A part keeps both numbers side by side, at the place where they
// are used.
func amount[T any](s *scope, full, brief T) T {
	if s.brief {
		return brief
	}
	return full
}

// client returns a Client of this library that is closed at the end.
func (s *scope) client(rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.Client {
	c := rratelimiter.New(rdb, opts...)
	s.Cleanup(func() { _ = c.Close() }) // it returns no error but that it was closed before
	return c
}

// peer starts the JVM in which Redisson runs. It ends with the scope.
func (s *scope) peer(ctx context.Context) (*javapeer.Peer, error) {
	peer, err := javapeer.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = peer.Close() }) // all its figures have arrived by then
	return peer, nil
}

// patient is an option for clients whose pool thousands of callers share. The size of the pool stays
// go-redis's own, 10 connections for each core.
func patient(o *redis.Options) { o.PoolTimeout = poolTimeout }

// poolTimeout is longer than the longest batch: no caller gives up in a pool, which would be an error instead
// of a latency.
const poolTimeout = 5 * time.Minute

// must ends the part at an error: the scope returns it. It is for the goroutine of the part only.
func must(err error) {
	if err != nil {
		new(redistest.Scope).Fatalf("%w", err)
	}
}

// get returns the value of a call that must not fail.
func get[T any](value T, err error) T {
	must(err)
	return value
}

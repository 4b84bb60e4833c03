package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/work"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// Want is what a caller asks for.
type Want = queue.Want

// Result is what a caller gets.
type Result = request.Result

// Rate is the configuration of a limiter.
type Rate = request.Rate

// GivenRate is a rate that acquires set.
type GivenRate = request.GivenRate

// Change sets a rate.
type Change = request.Change

// Event is a keyspace notification.
type Event = request.Event

// Peers describes a limiter and the Clients that use it.
type Peers = request.Peers

// Booking is a record for permits that were granted without Redis.
type Booking = request.Booking

// Part is what a call settles of one limiter.
type Part = request.Part

// A Config configures an Engine.
type Config struct {
	request.Config
	Hub      *pubsub.Hub
	GoOnly   bool // no Java client uses these limiters
	Observed bool // measure Result.Queued
}

// An Upper stands on an Engine and decides some calls without it (internal/ahead). The Engine calls it also
// while a queue is locked.
type Upper interface {
	// Wrote is called after a call that may have changed the permits or the rate of the limiter with a hash.
	Wrote(hash string)

	// Waits is called when a caller begins to wait for permits of the limiter with a hash.
	Waits(hash string)

	// Free gives back what the Upper holds of limiters that have refused a call, and reports whether Redis
	// got it within the call's budget. It returns the rest of that.
	Free(ctx context.Context, budget time.Duration, of ...*request.Target) (rest time.Duration, freed bool)

	// Close gives back all that the Upper holds. The Engine still works meanwhile.
	Close()
}

// noUpper is the Upper of an Engine that has none.
type noUpper struct{}

// Wrote implements Upper.
func (noUpper) Wrote(string) {}

// Waits implements Upper.
func (noUpper) Waits(string) {}

// Free implements Upper.
func (noUpper) Free(_ context.Context, budget time.Duration, _ ...*request.Target) (time.Duration, bool) {
	return budget, false
}

// Close implements Upper.
func (noUpper) Close() {}

// An Engine asks Redis on behalf of all callers of one Client. It is safe for concurrent use.
//
// Locks are taken in this order: those of internal/queue; those of internal/ahead; of a circuit, of the
// Guard, of a localLimiter (internal/outage); of a back.List, of a work.Pool. A queue tells the Upper that
// callers wait, a lease tells the Guard what it takes and gives back, and each may start a goroutine. The
// locks of internal/request, of sessions and of meetings come last: their owners call nothing that locks.
// Only takeShares locks several localLimiters, in the order of their hashes. No goroutine asks Redis while it
// holds a lock.
type Engine struct {
	*work.Pool
	source *request.Source
	hub    *pubsub.Hub
	queues *queue.Registry
	groups groups
	back   *back.List
	upper  Upper
}

// New returns an Engine. It does not ask Redis.
func New(config Config) *Engine {
	e := &Engine{Pool: work.New(), hub: config.Hub, upper: noUpper{}}
	config.Runner.Base = e.Context()
	e.source, e.back = request.NewSource(config.Config), back.NewList(e.Go)
	e.queues = queue.NewRegistry(queue.Config{
		Runner: &e.source.Runner, Pool: e.Pool, Back: e.back, Hub: config.Hub,
		GoOnly: config.GoOnly, Observed: config.Observed,
		Waits: func(hash string) { e.upper.Waits(hash) },
	})
	e.groups.init()
	return e
}

// Use puts an Upper on the Engine, before any call.
func (e *Engine) Use(u Upper) { e.upper = u }

// Back returns the list of the jobs that take permits back later.
func (e *Engine) Back() *back.List { return e.back }

// Limiter returns the limiter called name. argument is the caller's word for the name in
// errors. given is the rate that acquires set, nil if they set none.
func (e *Engine) Limiter(argument, name string, given *GivenRate) *Limiter {
	l := &Limiter{engine: e}
	l.Init(e.source, argument, name, given)
	return l
}

// Beside returns a limiter called name whose keys are in the slot of {name}, whatever braces the name has.
func (e *Engine) Beside(name string) *Limiter {
	l := &Limiter{engine: e}
	l.InitBeside(e.source, name)
	return l
}

// Unusable returns a limiter whose calls all return err.
func (e *Engine) Unusable(name string, err error) *Limiter {
	l := &Limiter{engine: e}
	l.InitUnusable(e.source, name, err)
	return l
}

// Close closes the Upper. Then it ends all waiting calls, with failure.ErrClosed. Permits that they
// may have taken come back an interval later. Close then waits for the goroutines: for a
// second in all, or half of that if the Upper took longer. A goroutine that waits for a
// silent Redis ends when go-redis times out.
func (e *Engine) Close() {
	const closing = time.Second // more would delay the end of a process
	began := time.Now()
	e.upper.Close()
	timer := time.NewTimer(max(closing-time.Since(began), closing/2))
	defer timer.Stop()
	e.Cancel(failure.ErrClosed)
	e.queues.Close()
	ended := make(chan struct{})
	go func() {
		if e.hub != nil {
			e.hub.Close()
		}
		e.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// Waiting returns the number of callers waiting for permits: in line, or among the arrivals.
func (e *Engine) Waiting() int { return int(e.groups.waitingCallers.Load()) + e.queues.Waiting() }

// Pause waits for d. It returns an error if ctx ends or the Engine is closed
// first.
func (e *Engine) Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.Context().Done():
		return failure.ErrClosed
	}
}

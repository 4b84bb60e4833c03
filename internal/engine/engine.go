package engine

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/internal/work"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// A Config configures an Engine.
type Config struct {
	ID      string                   // the scope of PerClient limits
	MapName func(name string) string // Redisson's NameMapper

	// Err is the result of each call, if it is not nil. The Engine then reads no
	// other field.
	Err error

	Runner redisx.Runner
	Hub    *pubsub.Hub

	// Clock returns the time to send. If it is nil, scripts use the time of the
	// Redis server.
	Clock func() time.Time

	// Layout packs the records of grants, with the mark of this Engine. Plain is
	// the same format without a mark, for records that Repair rewrites: a mark
	// there would claim the permits of other clients.
	Layout, Plain *wire.Layout

	GoOnly   bool // no Java client uses these limiters
	Observed bool // measure Result.Queued
}

// An Upper stands on an Engine and decides some calls without it (internal/ahead). The Engine calls it, also
// while a queue is locked.
type Upper interface {
	// Wrote is called after a call that may have changed the permits or the rate of a limiter.
	Wrote(l *Limiter)

	// Waits is called when a caller begins to wait for permits of a limiter.
	Waits(l *Limiter)

	// Free gives back what the Upper holds of limiters that have refused a call, and reports whether Redis
	// got it within the call's budget, which it reduces.
	Free(ctx context.Context, wanted *Want, limiters ...*Limiter) bool

	// Close gives back all that the Upper holds. The Engine still works meanwhile.
	Close()
}

// noUpper is the Upper of an Engine that has none.
type noUpper struct{}

// Wrote implements Upper.
func (noUpper) Wrote(*Limiter) {}

// Waits implements Upper.
func (noUpper) Waits(*Limiter) {}

// Free implements Upper.
func (noUpper) Free(context.Context, *Want, ...*Limiter) bool { return false }

// Close implements Upper.
func (noUpper) Close() {}

// An Engine asks Redis on behalf of all callers of one Client. It is safe for
// concurrent use.
//
// Locks are taken in this order: the mu of queues, of a queue; those of internal/ahead; of a
// circuit, of the Guard, of a localLimiter (internal/outage); of a back.List, of a work.Pool.
// A queue tells the Upper that callers wait, a lease tells the Guard what it takes and gives
// back, and each may start a goroutine. The mu of types, shards, sessions and meetings
// come last: their owners call nothing that locks. Only newGroupCaller locks several queues, and
// it holds queues.mu meanwhile, so no two goroutines can each wait for a queue that the
// other one has locked. Only takeShares locks several localLimiters, in the order of their
// hashes. No goroutine asks Redis while it holds a lock.
type Engine struct {
	config Config
	*work.Pool
	session session
	// requests is the number of the last request to any limiter. One counter for
	// all limiters keeps the numbers of each limiter growing even after a rename.
	requests atomic.Int64
	// silent reports for each server whether its last batch got no reply, or a late one.
	silent [Servers]atomic.Bool
	mark   any // the mark of config.Layout; a string, boxed for go-redis

	queues queues
	types  types
	groups groups
	back   *back.List
	upper  Upper
}

// A session names the field of a limiter's hash that remembers the last request of an Engine
// (scripts/parts/sessions.lua).
type session struct {
	name  string
	boxed any // name, as go-redis wants its arguments
}

// New returns an Engine. It does not ask Redis.
func New(config Config) *Engine {
	name := wire.SessionPrefix + rand.Text()[:wire.SessionLetters]
	e := &Engine{config: config, Pool: work.New(), session: session{name, name}}
	e.config.Runner.Base = e.Context()
	e.queues.engine, e.back, e.upper = e, back.NewList(e.Go), noUpper{}
	e.queues.byHash = map[string]*queue{}
	e.groups.init()
	if config.Err == nil {
		e.mark = config.Layout.ClientMark()
	}
	return e
}

// Use puts an Upper on the Engine, before any call.
func (e *Engine) Use(u Upper) { e.upper = u }

// Back returns the list of the jobs that take permits back later.
func (e *Engine) Back() *back.List { return e.back }

// Limiter returns the limiter called name. argument is the caller's word for the name in
// errors. given is the rate that acquires set, nil if they set none.
func (e *Engine) Limiter(argument, name string, given *GivenRate) *Limiter {
	l := &Limiter{engine: e, name: name, given: given}
	l.err = l.Named(l.setKeys(argument))
	return l
}

// Beside returns a limiter called name whose keys are in the slot of {name}, whatever braces the name has.
func (e *Engine) Beside(name string) *Limiter {
	l := &Limiter{engine: e, name: name}
	l.setHash("{" + name + "}")
	return l
}

// Unusable returns a limiter whose calls all return err.
func (e *Engine) Unusable(name string, err error) *Limiter {
	l := &Limiter{engine: e, name: name}
	l.err = l.Named(err)
	return l
}

// Group returns the Group of the limiters: 1 to MaxMembers of them, with
// different hashes and on one server (Limiter.Together).
func (e *Engine) Group(limiters ...*Limiter) *Group { return &Group{e, limiters, keyOf(limiters)} }

// Close closes the Upper. Then it ends all waiting calls, with ErrClosed. Permits that they
// may have taken come back an interval later. Close then waits for the goroutines: for a
// second in all, or half of that if the Upper took longer. A goroutine that waits for a
// silent Redis ends when go-redis times out.
func (e *Engine) Close() {
	const closing = time.Second // more would delay the end of a process
	began := time.Now()
	e.upper.Close()
	timer := time.NewTimer(max(closing-time.Since(began), closing/2))
	defer timer.Stop()
	e.Cancel(ErrClosed)
	// The context ends first. A caller that enters a queue after this loop has
	// passed it finds the Engine closed (queue.arrive).
	for _, q := range e.queues.all() {
		q.mu.Lock()
		q.close()
		q.mu.Unlock()
	}
	ended := make(chan struct{})
	go func() {
		if e.config.Hub != nil {
			e.config.Hub.Close()
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
func (e *Engine) Waiting() int {
	n := int(e.groups.waitingCallers.Load())
	for _, q := range e.queues.all() {
		q.mu.Lock()
		n += q.waiting()
		q.mu.Unlock()
	}
	return n
}

// now returns the time to send. It is empty if the script is to use the server's time.
func (e *Engine) now() any {
	if e.config.Clock == nil {
		return ""
	}
	return e.config.Clock().UnixMilli()
}

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
		return ErrClosed
	}
}

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// goroutines starts and counts the goroutines of an Engine. All of them end with the
// Engine.
type goroutines struct {
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	jobs        chan func(ctx context.Context) // to idle workers; unbuffered, so that no job waits in it
	idleWorkers atomic.Int32

	// mu orders Go and cancelAll. Otherwise Go could call running.Add after Close has
	// called running.Wait, which WaitGroup forbids.
	mu      sync.Mutex
	running sync.WaitGroup // what Close waits for; Add under mu
}

func (g *goroutines) init() {
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.jobs = make(chan func(context.Context))
}

// cancelAll cancels the context of all goroutines. Go starts none after that.
func (g *goroutines) cancelAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel(ErrClosed)
}

// Context returns a context that ends with Close.
func (g *goroutines) Context() context.Context { return g.ctx }

// closed reports whether Close was called.
func (g *goroutines) closed() bool { return g.ctx.Err() != nil }

// Go runs f in a goroutine that Close waits for, and reports whether it started
// one: a closed Engine runs nothing. f must return when its context ends.
func (g *goroutines) Go(f func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	closed := g.closed()
	if !closed {
		g.running.Go(func() { f(g.ctx) })
	}
	return !closed
}

// At most maxIdle workers wait for the next job, each for idleFor: enough for some busy
// limiters, while a process that seldom asks soon has none.
const (
	maxIdle = 64
	idleFor = time.Second
)

// Work is Go for short jobs that ask Redis. Its goroutine takes further jobs when it is
// done: go-redis needs a large stack, which a new goroutine would take 10 us to grow for
// each request.
func (g *goroutines) Work(job func(ctx context.Context)) bool {
	select {
	case g.jobs <- job:
		return true
	default:
	}
	return g.Go(func(ctx context.Context) {
		timer := time.NewTimer(idleFor)
		defer timer.Stop()
		// A worker counts itself idle before it looks for a job and leaves when
		// maxIdle other workers are idle. The count is a bound, not an invariant: two workers
		// that leave at the same moment cost one new goroutine.
		for more := true; more; g.idleWorkers.Add(-1) {
			job(ctx)
			more = g.idleWorkers.Add(1) <= maxIdle
			if !more {
				continue
			}
			timer.Reset(idleFor)
			select {
			case job = <-g.jobs:
			case <-timer.C:
				more = false
			case <-ctx.Done():
				more = false
			}
		}
	})
}

// within runs f, which asks Redis, and returns its result, or an error when ctx
// ends or the Engine is closed. f may then go on in its goroutine, so it must not
// write to variables that the caller of within reads.
func within[T any](
	ctx context.Context, l *Limiter, f func(ctx context.Context) (T, error),
) (none T, _ error) {
	if err := l.Usable(ctx); err != nil {
		return none, err
	}
	type outcome struct {
		v   T
		err error
	}
	var lastFailure atomic.Pointer[error]
	o, left := redisx.Leave(ctx, l.engine.ctx, l.engine.Work, func(closing context.Context) outcome {
		ctx, cancel := context.WithCancel(ctx)
		ctx = context.WithValue(ctx, redisx.FailureKey{}, func(err error) { lastFailure.Store(&err) })
		defer cancel()
		defer context.AfterFunc(closing, cancel)()
		v, err := f(ctx)
		return outcome{v, err}
	}, nil)
	switch {
	case l.engine.closed() && (left || o.err != nil && !redisx.Final(o.err)):
		return none, ErrClosed
	case left:
		o.err = ctx.Err()
	}
	// The end of ctx says nothing about Redis, but an earlier failure does, so the error
	// has both.
	if cause := lastFailure.Load(); cause != nil && ctx.Err() != nil && o.err == ctx.Err() {
		return none, l.Named(unanswered(ctx.Err(), *cause))
	}
	return o.v, l.Named(withContextEnd(ctx, o.err))
}

// changes is within for an f that may free permits or change the rate: the Upper forgets what Redis has
// said before.
func changes[T any](
	ctx context.Context, l *Limiter, f func(ctx context.Context) (T, error),
) (T, error) {
	return within(ctx, l, func(ctx context.Context) (T, error) {
		defer l.engine.upper.Wrote(l)
		return f(ctx)
	})
}

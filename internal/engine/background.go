package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// goroutines starts and counts the goroutines of an Engine, which all end with it.
type goroutines struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	jobs        chan func(ctx context.Context) // to workers that have nothing to do
	idleWorkers atomic.Int32                   // how many these are

	mu      sync.Mutex     // held where ctx ends, and where the goroutines are counted
	running sync.WaitGroup // what Close waits for; Add under mu
}

func (g *goroutines) init() {
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.jobs = make(chan func(context.Context))
}

// end cancels the context of all goroutines. Later calls of Go start none.
func (g *goroutines) cancelAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel()
}

// Context returns a context that ends with Close.
func (g *goroutines) Context() context.Context { return g.ctx }

// closed reports whether Close was called.
func (g *goroutines) closed() bool { return g.ctx.Err() != nil }

// Go runs f in a goroutine that Close waits for; f must end when the context it gets does.
// It reports whether it did: a closed Engine runs nothing.
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
// limiters, and no goroutines for long in a process that asks seldom.
const (
	maxIdle = 8
	idleFor = time.Second
)

// Work is Go for what asks Redis and is soon done. Its goroutine takes the next job after
// it, for go-redis needs a large stack, which takes 10 us to grow.
func (g *goroutines) Work(job func(ctx context.Context)) bool {
	select {
	case g.jobs <- job:
		return true
	default:
	}
	return g.Go(func(ctx context.Context) {
		timer := time.NewTimer(idleFor)
		defer timer.Stop()
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

// within runs f, which asks Redis, and returns what f returns, or an error when
// ctx ends or the Engine is closed. Then f may go on for as long as go-redis
// reads one reply, for go-redis ignores the context meanwhile.
func within[T any](ctx context.Context, l *Limiter, f func(ctx context.Context) (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	if err := l.Usable(ctx); err != nil {
		return none, err
	}
	var lastFailure atomic.Pointer[error]
	done := make(chan outcome, 1)
	if !l.engine.Work(func(closing context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		ctx = context.WithValue(ctx, redisx.FailureKey{}, func(err error) { lastFailure.Store(&err) })
		defer cancel()
		defer context.AfterFunc(closing, cancel)()
		v, err := f(ctx)
		done <- outcome{v, err}
	}) {
		return none, ErrClosed
	}
	var o outcome
	select {
	case o = <-done:
	case <-l.engine.ctx.Done():
		return none, ErrClosed
	case <-ctx.Done():
		select {
		case o = <-done:
		default:
			o.err = ctx.Err()
		}
	}
	// The end of ctx says nothing of Redis; what Redis or the network said before does.
	if cause := lastFailure.Load(); cause != nil && ctx.Err() != nil && o.err == ctx.Err() {
		return none, l.Named(unanswered(ctx.Err(), *cause))
	}
	return o.v, l.Named(withContextEnd(ctx, o.err))
}

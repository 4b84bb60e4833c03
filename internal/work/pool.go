// Package work runs the goroutines of a Client and ends them when it is closed.
package work

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool starts and counts the goroutines of a Client. All of them end with Cancel.
type Pool struct {
	ctx    context.Context // ends with Cancel
	cancel context.CancelCauseFunc

	jobs        chan func(ctx context.Context) // to idle workers; unbuffered, so that no job waits in it
	idleWorkers atomic.Int32

	// mu orders Go and Cancel. Otherwise Go could call running.Add after Wait has
	// called running.Wait, which WaitGroup forbids.
	mu      sync.Mutex
	running sync.WaitGroup // what Wait waits for; Add under mu
}

// New returns a Pool without goroutines.
func New() *Pool {
	p := &Pool{jobs: make(chan func(context.Context))}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// Cancel ends the context of all goroutines, with a cause. Go starts none after that.
func (p *Pool) Cancel(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel(cause)
}

// Wait waits until all goroutines have ended, after Cancel.
func (p *Pool) Wait() { p.running.Wait() }

// Context returns the context of the goroutines.
func (p *Pool) Context() context.Context { return p.ctx }

// Closed reports whether Cancel was called.
func (p *Pool) Closed() bool { return p.ctx.Err() != nil }

// Go runs f in a goroutine that Wait waits for, and reports whether it started
// one: a closed Pool runs nothing. f must return when its context ends.
func (p *Pool) Go(f func(ctx context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	closed := p.Closed()
	if !closed {
		p.running.Go(func() { f(p.ctx) })
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
func (p *Pool) Work(job func(ctx context.Context)) bool {
	select {
	case p.jobs <- job:
		return true
	default:
	}
	return p.Go(func(ctx context.Context) {
		timer := time.NewTimer(idleFor)
		defer timer.Stop()
		// A worker counts itself idle before it looks for a job and leaves when
		// maxIdle other workers are idle. The count is a bound, not an invariant: two workers
		// that leave at the same moment cost one new goroutine.
		for more := true; more; p.idleWorkers.Add(-1) {
			job(ctx)
			more = p.idleWorkers.Add(1) <= maxIdle
			if !more {
				continue
			}
			timer.Reset(idleFor)
			select {
			case job = <-p.jobs:
			case <-timer.C:
				more = false
			case <-ctx.Done():
				more = false
			}
		}
	})
}

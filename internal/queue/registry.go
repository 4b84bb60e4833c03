package queue

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/turns"
	"github.com/redisson-go/rratelimiter/internal/work"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// A Config configures a Registry.
type Config struct {
	Runner *redisx.Runner
	Pool   *work.Pool // runs the batches
	Back   *back.List // has withdrawals while Redis is away
	Hub    *pubsub.Hub

	GoOnly   bool // no Java client uses these limiters
	Observed bool // measure Result.Queued

	// Waits is called when a caller begins to wait for permits of the limiter with a hash. It must not call
	// the Registry.
	Waits func(hash string)
}

// stripes is how many locks the queues of a Registry share.
const stripes = 64

// A Registry has the queues of a Client: one for each limiter in use. An unused limiter takes no memory,
// because a process may touch a million names.
type Registry struct {
	Config
	seed    maphash.Seed
	stripes [stripes]stripe
	waiters sync.Pool // of *waiter
	// silent reports for each server whether its last batch got no reply, or a late one.
	silent [request.Servers]atomic.Bool
}

// A stripe has the queues whose hashes fall on it. Its mu guards them, with all their waiters.
//
// A goroutine that holds it takes no other stripe, but for Registry.lockAll, which takes them in their order;
// it may then take the locks of internal/ahead, of a back.List and of a work.Pool, and never asks Redis.
type stripe struct {
	mu     sync.Mutex
	byHash map[string]*queue
	spare  []*queue // unused
}

// mostSpare bounds the unused queues of a stripe.
const mostSpare = 16

// NewRegistry returns a Registry without queues.
func NewRegistry(config Config) *Registry {
	r := &Registry{Config: config, seed: maphash.MakeSeed()}
	for i := range r.stripes {
		r.stripes[i].byHash = map[string]*queue{}
	}
	return r
}

// stripeOf returns the number of the stripe of a limiter.
func (r *Registry) stripeOf(t *request.Target) int {
	return int(maphash.String(r.seed, t.Hash) % stripes)
}

// lock returns the queue of a limiter, locked. It makes one if there is none.
func (r *Registry) lock(t *request.Target) *queue {
	s := &r.stripes[r.stripeOf(t)]
	s.mu.Lock()
	return r.queueOf(s, t)
}

// queueOf returns the queue of a limiter of a stripe, which is locked. It makes one if there is none.
func (r *Registry) queueOf(s *stripe, t *request.Target) *queue {
	q := s.byHash[t.Hash]
	if q != nil {
		return q
	}
	if last := len(s.spare) - 1; last >= 0 {
		q, s.spare = s.spare[last], s.spare[:last]
	} else {
		q = &queue{registry: r, stripe: s}
		q.line.wake, q.line.recordsWaits = make(chan struct{}, 1), r.Observed
		q.batch = &batch{queue: q, waiting: notUnderWay}
	}
	q.target, s.byHash[t.Hash] = t, q
	return q
}

// lock locks a queue that something keeps (unlock).
func (q *queue) lock() { q.stripe.mu.Lock() }

// unlock ends lock, and then a queue that is idle is gone. A reserved place in line, an abandoned batch and a
// withdrawal keep it: each still has a pointer to it. While waiters share the limit with other processes,
// callers that were just served often come again, and the queue stays for a while with the portion of this
// process.
func (q *queue) unlock() {
	defer q.stripe.mu.Unlock()
	kept := q.busy || q.line.attended || q.abandoned > 0 || q.unowned != unowned{} || q.retires ||
		q.line.places > 0 || q.arrivals.size > 0 || q.releases.size > 0 || q.line.size > 0
	if kept || q.target == nil {
		return
	}
	if q.line.portion != nil {
		if rest := q.line.portion.LingerFor(time.Now()); rest > 0 {
			q.retires = true
			time.AfterFunc(rest, func() {
				q.lock()
				q.retires = false
				q.unlock()
			})
			return
		}
	}
	delete(q.stripe.byHash, q.target.Hash)
	q.target, q.lastReply, q.line.portion = nil, lastReply{}, nil
	q.line.schedule, q.releases.lastBatchReleased = turns.Schedule{}, false
	if len(q.stripe.spare) < mostSpare && cap(q.batch.waiters) <= maxRuns { // let the memory of a burst go
		q.stripe.spare = append(q.stripe.spare, q)
	}
}

// lockAll locks the queues of different limiters and returns them, with a function that unlocks them.
func (r *Registry) lockAll(targets []*request.Target) (queues []*queue, unlock func()) {
	var wanted [stripes]bool
	for _, t := range targets {
		wanted[r.stripeOf(t)] = true
	}
	for i, yes := range wanted { // in this order everywhere, or two goroutines could wait for one another
		if yes {
			r.stripes[i].mu.Lock()
		}
	}
	for _, t := range targets {
		queues = append(queues, r.queueOf(&r.stripes[r.stripeOf(t)], t))
	}
	return queues, func() {
		for i, yes := range wanted {
			if yes {
				r.stripes[i].mu.Unlock()
			}
		}
	}
}

// all calls f for each queue, locked.
func (r *Registry) all(f func(q *queue)) {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		for _, q := range s.byHash {
			f(q)
		}
		s.mu.Unlock()
	}
}

// Close answers all callers with failure.ErrClosed, after the Pool was closed. A caller that enters a queue
// later finds the Pool closed.
func (r *Registry) Close() { r.all((*queue).close) }

// Waiting returns the number of callers waiting for permits: in line, or among the arrivals. Callers of
// Places are not among them.
func (r *Registry) Waiting() (n int) {
	r.all(func(q *queue) { n += q.waiting() })
	return n
}

// Queues returns the number of limiters in use.
func (r *Registry) Queues() (n int) {
	r.all(func(*queue) { n++ })
	return n
}

// HasLine reports whether callers stand in line at one of the limiters.
func (r *Registry) HasLine(targets []*request.Target) bool {
	for _, t := range targets {
		s := &r.stripes[r.stripeOf(t)]
		s.mu.Lock()
		q := s.byHash[t.Hash]
		has := q != nil && q.line.size > 0
		s.mu.Unlock()
		if has {
			return true
		}
	}
	return false
}

// Ask asks for permits, or gives them back, and waits for the result. The error has no name.
func (r *Registry) Ask(ctx context.Context, t *request.Target, wanted Want) (request.Result, error) {
	w, ok := r.waiters.Get().(*waiter) // its channel and timers are the expensive parts of a call in Go
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.Want, w.ctx = wanted, ctx
	if given := t.Given; given != nil && !wanted.Release {
		w.givenRate = given.Argument
	}
	if w.bounded = wanted.Timed() || w.Budget > 0; w.bounded {
		w.canLeave, w.enteredAt = true, time.Now()
	} else if w.canLeave = ctx.Done() != nil; w.canLeave {
		_, w.bounded = ctx.Deadline()
	}
	w.staysForReply = !w.canLeave || r.Runner.KeepsDeadlines && r.keepsDeadline(ctx, t, w)
	q := r.lock(t)
	leads := q.arrive(w)
	q.unlock()
	if leads {
		q.batch.lead(w)
	}
	v, err := w.await(ctx, q)
	if err != nil {
		err = failure.WithContextEnd(ctx, err)
	}
	return v, err
}

// MoveWithdrawal gives a renamed limiter the withdrawal of its old name, because the
// session has moved with the hash.
func (r *Registry) MoveWithdrawal(from, to *request.Target) {
	old := r.lock(from)
	w := old.unowned.withdrawal
	old.unowned.withdrawal = nil
	old.unlock()
	if w == nil {
		return
	}
	q := r.lock(to)
	if q.unowned.withdrawal == nil {
		q.unowned.withdrawal = w
	}
	q.start()
	q.unlock()
}

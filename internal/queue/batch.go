package queue

import (
	"context"
	"runtime"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// maxRuns is how many runs a batch has. Each takes Redis 0.3 us. Any number
	// of equal requests is one run, so the bound is rarely met.
	maxRuns = 256

	// gatherRounds is how often a batch yields the processor while none of the callers it
	// has served returns.
	gatherRounds = 10

	// notUnderWay is the number of waiting callers of a batch that is not under way. 0
	// means that all callers have left.
	notUnderWay = -1
)

// A batch holds the callers that one script call judges. A queue reuses its batch for
// each call.
type batch struct {
	queue *queue

	// Guarded by the queue's mu.
	number       int64     // counts the batches of the queue
	waiters      []*waiter // the callers it judges, in the order of the request
	waiting      int       // callers that have not left; notUnderWay before and after
	includesLine bool      // it probes the line
	cancel       func()    // ends its call, unless go-redis is reading a reply
	began        time.Time
	leader       *waiter          // the caller whose goroutine carries it out; nil for a worker
	request      *request.Request // the request that is under way

	// abandoned says that all callers have left and the queue has another batch.
	abandoned bool

	gathered

	served []*waiter // to be sent their results, without mu
}

// gathered is what the waiters of a batch ask for together.
type gathered struct {
	runs         []request.Run
	permits      int64
	newlyWaiting int64 // permits of waiting callers that are not in line yet
	patient      bool  // all stand in line: they may leave permits to other processes
	options      request.Options
}

// run makes batches while they are wanted. Each gets its own context, because the last
// caller to leave cancels it.
func (b *batch) run(closing context.Context) {
	for more := true; more; {
		ctx, cancel := context.WithCancel(closing)
		more = b.next(ctx, cancel)
		cancel()
		if more {
			b.gather()
		}
	}
}

// next makes a batch if one is wanted, and reports whether b goes on. If not, the series of batches has
// ended, and another goroutine may already use b.
func (b *batch) next(ctx context.Context, cancel func()) bool {
	q := b.queue
	q.lock()
	if q.registry.Pool.Closed() {
		q.close()
	}
	if q.line.size > 0 {
		q.lineUp() // before take, so that arrivals behind the line are not served ahead of it
	}
	if !b.take() {
		q.busy = false
		q.start()
		q.unlock()
		return false
	}
	// caller and cancel are set under mu, because the callers may leave from now
	// on.
	b.cancel, b.leader = cancel, nil
	caller := ctx
	// Only a lone caller lends its values: with several callers, the request would appear
	// in a random one's trace.
	if len(b.waiters) == 1 {
		caller = b.waiters[0].ctx
	}
	q.unlock()
	return b.send(Context{ctx, caller, q})
}

// A Context is the context of a request. The request of one caller has that
// caller's values, so that hooks of go-redis find the trace that the call belongs
// to. A shared request belongs to no trace.
type Context struct {
	context.Context
	Caller context.Context
	Sender interface{ NoteFailure(err error) } // gets the error of an attempt that is repeated
}

// Value implements context.Context.
func (ctx Context) Value(key any) any {
	if key == (redisx.FailureKey{}) {
		return ctx.Sender.NoteFailure
	}
	if v := ctx.Context.Value(key); v != nil {
		return v
	}
	return ctx.Caller.Value(key)
}

// gather lets the callers that were just served run before the next batch.
// Callers in a loop come again at once and then share it; without gather the
// first of them would get a batch to itself.
func (b *batch) gather() {
	for arrived, idle := 0, 0; idle < gatherRounds && arrived < len(b.served); idle++ {
		runtime.Gosched()
		b.queue.lock()
		if b.queue.arrivals.size > arrived {
			arrived, idle = b.queue.arrivals.size, 0
		}
		b.queue.unlock()
	}
}

// take makes the request of the next batch: the line, if it is to be probed, and
// the arrivals behind it. Batches of releases take turns with these. It returns
// false if there is nothing to do. Guarded by mu.
func (b *batch) take() bool {
	q := b.queue
	if !q.wanted() {
		return false
	}
	acquires := q.arrivals.size > 0 || q.line.probes()
	gives := q.releases.size > 0 && !(acquires && q.releases.lastBatchReleased)
	b.gathered = gathered{runs: b.runs[:0], patient: true}
	came := &q.arrivals
	if gives {
		came = &q.releases.waiterList
	}
	b.includesLine = !gives && b.addLine()
	for came.first != nil && b.add(came.first) { // until the batch is full
	}
	q.releases.lastBatchReleased = gives
	b.number++
	b.waiting, b.began = len(b.waiters), time.Now()
	switch unowned := q.unowned.withdrawal; {
	case gives:
		b.request = q.target.Release(b.permits, unowned)
	case acquires:
		if q.line.portion != nil && b.patient && q.target.Type() == wire.Overall {
			wants := b.newlyWaiting + q.line.permits
			b.options.Portion = q.line.portion.Text(wants, q.registry.GoOnly, b.began)
		}
		b.request = q.target.Acquire(b.runs, unowned, b.options)
	default:
		b.request = q.target.Withdraw(unowned)
	}
	return true
}

// addLine adds the line, if it is to be probed, and reports whether it is: from its head on, up to permits
// for the whole rate, because no more can be granted at once. Guarded by mu.
func (b *batch) addLine() bool {
	q := b.queue
	if !q.line.probes() {
		return false
	}
	for w := q.line.first; w != nil && !w.ofGroup(); w = w.next {
		if q.lastReply.rate > 0 && b.permits > q.lastReply.rate || !b.add(w) {
			break
		}
	}
	q.line.schedule.NoteProbe()
	return true
}

// add adds a waiter to the batch, and reports whether there was room. Guarded by
// mu.
func (b *batch) add(w *waiter) bool {
	one := int64(1)
	if w.Waits() {
		one = -1
	}
	last := len(b.runs) - 1
	joins := last >= 0 && b.runs[last].Permits == w.Permits && (b.runs[last].Many < 0) == w.Waits()
	switch {
	case b.permits > request.MaxPermits-w.Permits:
		return false
	case w.Release: // releases are one sum
	case joins:
		b.runs[last].Many += one
	case len(b.runs) == maxRuns:
		return false
	default:
		b.runs = append(b.runs, request.Run{Permits: w.Permits, Many: one})
	}
	if w.state == inLine {
		w.state = probed
	} else {
		w.remove()
		w.state = judged
		if w.Waits() {
			b.newlyWaiting += w.Permits
		}
	}
	b.waiters = append(b.waiters, w)
	b.permits += w.Permits
	b.patient = b.patient && w.Waits()
	b.options.Numbers = b.options.Numbers || w.Numbers
	if w.givenRate != nil {
		b.options.GivenRate = w.givenRate
	}
	return true
}

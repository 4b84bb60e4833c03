package engine

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// maxRuns is how many runs a batch has. Each takes Redis 0.3 us; requests
	// that are equal are one, however many they are.
	maxRuns = 256

	// A batch that takes longer than hanging hangs. If it then fails, go-redis has
	// used up all its attempts, and the callers behind it get its error, too.
	hanging = 250 * time.Millisecond

	// gathering is how often a batch lets other goroutines run while none of those
	// that it has served comes again.
	gathering = 10

	// notUnderWay is how many wait for a batch that is not under way.
	notUnderWay = -1
)

// A batch is the callers that one script call judges. A queue has one, which
// it uses again and again.
type batch struct {
	queue *queue

	// Guarded by the queue's mu.
	number  int64     // counts the batches of the queue
	waiters []*waiter // those it judges, in their order
	waiting int       // those of them that have not left; notUnderWay before and after
	probes  bool      // it includes the line
	cancel  func()    // ends its call, as far as go-redis lets it
	began   time.Time

	request *request // what it asks

	// deserted: nobody waits for it any more, and the queue has another one.
	deserted bool

	// What is gathered for a request.
	runs    []run
	permits int64
	numbers bool
	waited  int64 // permits of those who wait, but for the line
	patient bool  // all of them can wait longer: they may leave permits to other processes
	set     any   // the text of a GivenRate, nil if no caller has one

	done []*waiter // to whom it delivers
}

// run makes batches as long as they are wanted.
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

// next makes a batch if one is wanted, and reports whether b goes on: otherwise
// the queue has paused, and b may be somebody else's by now.
func (b *batch) next(ctx context.Context, cancel func()) bool {
	q := b.queue
	q.mu.Lock()
	if q.engine.closed() {
		q.close()
	}
	q.lineUp()
	req := b.take()
	if req == nil {
		idle := q.pause()
		q.mu.Unlock()
		if idle {
			q.engine.queues.retire(q)
		}
		return false
	}
	b.cancel = cancel
	caller := ctx
	if len(b.waiters) == 1 {
		caller = b.waiters[0].ctx
	}
	q.mu.Unlock()
	return b.send(batchContext{ctx, caller, q}, req)
}

// A batchContext is the context of a batch. It has the values of its caller, if
// there is but one, for hooks of go-redis that look for the trace it belongs to.
type batchContext struct {
	context.Context
	caller context.Context
	queue  *queue
}

// Value is that of context.Context.
func (ctx batchContext) Value(key any) any {
	if key == (redisx.FailureKey{}) {
		return ctx.queue.failed
	}
	if v := ctx.Context.Value(key); v != nil {
		return v
	}
	return ctx.caller.Value(key)
}

// gather lets those who have just been served run before the next batch: they may
// come again at once, and then share it.
func (b *batch) gather() {
	for arrived, idle := 0, 0; idle < gathering && arrived < len(b.done); idle++ {
		runtime.Gosched()
		b.queue.mu.Lock()
		if b.queue.arrivals.size > arrived {
			arrived, idle = b.queue.arrivals.size, 0
		}
		b.queue.mu.Unlock()
	}
}

// take makes the request of the next batch: the line, if it is to be probed, and
// behind it the arrivals; in turns with those who give permits back. It returns
// nil if there is nothing to do. Guarded by mu.
func (b *batch) take() *request {
	q := b.queue
	acquires := q.acquires()
	gives := !q.returns.empty() && !(acquires && q.returns.servedLast)
	now := time.Now()
	b.runs, b.permits, b.waited, b.numbers, b.probes, b.set = nil, 0, 0, false, false, nil
	b.patient = true
	switch {
	case gives:
		b.addAll(&q.returns.waiterList)
	case acquires:
		if b.probes = q.line.probes(); b.probes {
			b.addLine(now)
			q.line.probe = probeUnderWay
		}
		b.addAll(&q.arrivals)
	case !q.unowned.due():
		return nil
	}
	q.returns.servedLast = gives
	b.number++
	b.waiting, b.began = len(b.waiters), now
	if acquires && !gives {
		b.request = newAcquire(q.limiter, b.runs, q.unowned.withdrawal)
		if b.patient && q.limiter.Type() == wire.Overall {
			b.request.portion = q.portion.text(b.waited+q.line.permits, now)
		}
	} else {
		b.request = newRelease(q.limiter, b.permits, q.unowned.withdrawal)
	}
	b.request.numbers, b.request.set = b.numbers, b.set
	return b.request
}

// addAll adds those of a list for whom there is room. Guarded by mu.
func (b *batch) addAll(ls *waiterList) {
	for !ls.empty() && b.add(ls.first) {
	}
}

// addLine adds the line, from its head on: no more than the rate, for that cannot
// be granted at once. Where it is Java's turn, or that of other processes, none behind the
// last of those whose timeout has passed: these take what is there. Guarded by mu.
func (b *batch) addLine(now time.Time) {
	q := b.queue
	expired := q.line.expired
	yields := q.line.yields || expired > 0 && q.portion.shared(now)
	for w := q.line.first; w != nil && !w.ofGroup(); w = w.next {
		if q.last.rate > 0 && b.permits > q.last.rate || yields && expired == 0 || !b.add(w) {
			return
		}
		if w.expired() {
			expired--
		}
	}
}

// add reports whether there is room for a waiter in the batch. Guarded by mu.
func (b *batch) add(w *waiter) bool {
	one := int64(1)
	if w.Waits() {
		one = -1
	}
	last := len(b.runs) - 1
	joins := last >= 0 && b.runs[last].permits == w.Permits && (b.runs[last].many < 0) == w.Waits()
	switch {
	case b.permits > MaxPermits-w.Permits:
		return false
	case w.gives: // they are one sum
	case joins:
		b.runs[last].many += one
	case len(b.runs) == maxRuns:
		return false
	default:
		b.runs = append(b.runs, run{w.Permits, one})
	}
	w.taken()
	if w.Waits() && w.standing == judged {
		b.waited += w.Permits
	}
	b.waiters = append(b.waiters, w)
	b.permits += w.Permits
	b.patient = b.patient && w.Waits() && !w.expired()
	b.numbers = b.numbers || w.Numbers
	if w.set != nil {
		b.set = w.set
	}
	return true
}

// send sends the request of the batch and delivers the results. It reports
// whether b goes on (next).
func (b *batch) send(ctx context.Context, req *request) bool {
	q := b.queue
	reply, err := req.send(ctx)
	q.mu.Lock()
	if b.deserted {
		q.deserted--
	}
	switch {
	case err != nil && q.engine.closed():
		err = ErrClosed
	case b.deserted:
	case err == nil || redisx.Final(err):
		q.last.failure, q.last.at = nil, time.Now() // Redis has replied
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()): // otherwise nobody has said anything
		q.last.failure = err
	}
	b.settle(req, reply, err)
	q.start()
	goesOn, idle, done := !b.deserted, false, b.done
	if b.deserted {
		idle = q.idle()
	} else if len(done) == 1 {
		if q.lineUp(); !q.wanted() {
			// A caller alone gets its result when all else is done, so that its
			// next call does not wait for what is left of this one.
			done = []*waiter{done[0]}
			goesOn, idle = false, q.pause()
		}
	}
	q.mu.Unlock()
	if idle {
		q.engine.queues.retire(q)
	}
	for _, w := range done { // without mu, which those who come again need
		w.ready <- struct{}{}
	}
	return goesOn
}

// settle decides for the waiters of the batch. Guarded by mu.
func (b *batch) settle(req *request, reply acquireReply, err error) {
	q := b.queue
	b.done, b.waiting = b.done[:0], notUnderWay
	var sum tally
	var s *split // nil where all get the same
	alike := err == nil && reply.judged == nil && !req.numbers
	if err == nil && !alike {
		s = newSplit(reply, req.runs)
	}
	size := len(b.waiters)
	for i, w := range b.waiters {
		v, e := Verdict{OK: alike}, err
		if s != nil {
			v, e = s.verdict(w.Permits)
		}
		if v.Batch = size; i == 0 {
			v.Drift = reply.drift
		}
		sum.add(w, v, e)
		b.dismiss(w, v, e, sum.first)
	}
	clear(b.waiters)
	b.waiters = b.waiters[:0]
	if b.deserted {
		return // what it was granted goes back (desert)
	}
	if sum.over > 0 && !req.gives() {
		sum.over = b.pass(sum.over)
	}
	q.account(req, err, sum.granted-sum.over, sum.over)
	if err != nil && b.hung(err) {
		b.share(err)
	}
	if !req.gives() {
		if reply.rate > 0 {
			q.last.rate = reply.rate
		}
		q.portion.judged(sum, reply, b.began)
		b.plan(sum.first)
	}
}

// dismiss lets a waiter of the batch go: with its result, or into the line.
// Guarded by mu.
func (b *batch) dismiss(w *waiter, v Verdict, err error, first refusal) {
	switch {
	case w.standing == gone:
		w.remove()
	case err != nil || v.OK || !w.Waits() || w.final(b.number) && first.holds(w):
		b.deliver(w, v, err)
	case w.standing == probed:
		w.standing = inLine
	default:
		b.queue.line.stand(w)
	}
}

// hung reports whether the batch has failed as one that hangs. One that was
// cancelled did not: everybody had left.
func (b *batch) hung(err error) bool {
	return !redisx.Answered(err) && !errors.Is(err, context.Canceled) &&
		time.Since(b.began) > hanging
}

// deliver gives a waiter its result. It is none of the queue's then. Guarded by mu.
func (b *batch) deliver(w *waiter, v Verdict, err error) {
	w.finish(v, err)
	b.done = append(b.done, w)
}

// share gives the error of a batch that has hung to those behind it who have
// no other bound: they do not pay twice. Guarded by mu.
func (b *batch) share(err error) {
	for _, ls := range []*waiterList{&b.queue.line.waiterList, &b.queue.arrivals} {
		ls.all(func(w *waiter) {
			if !w.bounded {
				b.deliver(w, Verdict{}, err)
			}
		})
	}
}

// pass gives what was granted to callers who have left meanwhile to the head of
// the line, and returns what is over then. Guarded by mu.
func (b *batch) pass(over int64) int64 {
	q := b.queue
	for w := q.line.first; w != nil && !w.ofGroup() && w.Permits <= over; w = q.line.first {
		over -= w.Permits
		b.deliver(w, Verdict{OK: true}, nil)
		q.line.changed()
	}
	return over
}

// plan decides when the line is probed next. If somebody in it was refused,
// those behind it are, too: the batch decides for those whose timeout had
// passed, and the head is due no earlier, unless it wants less. Otherwise the
// next batch goes on with the line. Guarded by mu.
func (b *batch) plan(first refusal) {
	q := b.queue
	if first.waiter != nil && q.line.expired > 0 {
		q.line.all(func(w *waiter) {
			if w.final(b.number) && first.holds(w) {
				b.deliver(w, Verdict{}, nil)
			}
		})
	}
	switch head := q.line.first; {
	case head == nil || !b.probes && first.waiter == nil:
	case first.waiter == nil || head.Permits < first.Permits:
		q.line.changed()
	case q.portion.left > 0:
		q.line.dueAfter(q.portion.look().Sub(b.began).Microseconds(), b.began)
		q.line.known = time.Time{} // it could serve some, whose turn it is not
	default:
		q.line.dueAfter(first.wait, b.began)
	}
}

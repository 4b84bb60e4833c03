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
	hangsAfter = 250 * time.Millisecond

	// gathering is how often a batch lets other goroutines run while none of those
	// that it has served comes again.
	gatherRounds = 10

	// notUnderWay is how many wait for a batch that is not under way.
	notUnderWay = -1
)

// A batch is the callers that one script call judges. A queue has one, which
// it uses again and again.
type batch struct {
	queue *queue

	// Guarded by the queue's mu.
	number       int64     // counts the batches of the queue
	waiters      []*waiter // those it judges, in their order
	waiting      int       // those of them that have not left; notUnderWay before and after
	includesLine bool      // it includes the line
	cancel       func()    // ends its call, as far as go-redis lets it
	began        time.Time

	request *request // what it asks

	// deserted: nobody waits for it any more, and the queue has another one.
	abandoned bool

	// What is gathered for a request.
	runs         []run
	permits      int64
	numbers      bool
	newlyWaiting int64 // permits of those who wait, but for the line
	patient      bool  // all of them can wait longer: they may leave permits to other processes
	givenRate    any   // the text of a GivenRate, nil if no caller has one

	served []*waiter // to whom it delivers
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
		return ctx.queue.noteFailure
	}
	if v := ctx.Context.Value(key); v != nil {
		return v
	}
	return ctx.caller.Value(key)
}

// gather lets those who have just been served run before the next batch: they may
// come again at once, and then share it.
func (b *batch) gather() {
	for arrived, idle := 0, 0; idle < gatherRounds && arrived < len(b.served); idle++ {
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
	acquires := q.wantsPermits()
	gives := !q.releases.empty() && !(acquires && q.releases.lastBatchReleased)
	now := time.Now()
	b.runs, b.permits, b.newlyWaiting, b.numbers, b.includesLine, b.givenRate = nil, 0, 0, false, false, nil
	b.patient = true
	switch {
	case gives:
		b.addAll(&q.releases.waiterList)
	case acquires:
		if b.includesLine = q.line.probes(); b.includesLine {
			b.addLine(now)
			q.line.probe = probeUnderWay
		}
		b.addAll(&q.arrivals)
	case !q.unowned.ready():
		return nil
	}
	q.releases.lastBatchReleased = gives
	b.number++
	b.waiting, b.began = len(b.waiters), now
	if acquires && !gives {
		b.request = newAcquire(q.limiter, b.runs, q.unowned.withdrawal)
		if b.patient && q.limiter.Type() == wire.Overall {
			b.request.portion = q.portion.text(b.newlyWaiting+q.line.permits, now)
		}
	} else {
		b.request = newRelease(q.limiter, b.permits, q.unowned.withdrawal)
	}
	b.request.numbers, b.request.givenRate = b.numbers, b.givenRate
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
	yields := q.line.yieldsToJava || expired > 0 && q.portion.shared(now)
	for w := q.line.first; w != nil && !w.ofGroup(); w = w.next {
		if q.lastReply.rate > 0 && b.permits > q.lastReply.rate || yields && expired == 0 || !b.add(w) {
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
	case w.release: // they are one sum
	case joins:
		b.runs[last].many += one
	case len(b.runs) == maxRuns:
		return false
	default:
		b.runs = append(b.runs, run{w.Permits, one})
	}
	w.noteTaken()
	if w.Waits() && w.state == judged {
		b.newlyWaiting += w.Permits
	}
	b.waiters = append(b.waiters, w)
	b.permits += w.Permits
	b.patient = b.patient && w.Waits() && !w.expired()
	b.numbers = b.numbers || w.Numbers
	if w.givenRate != nil {
		b.givenRate = w.givenRate
	}
	return true
}

// send sends the request of the batch and delivers the results. It reports
// whether b goes on (next).
func (b *batch) send(ctx context.Context, req *request) bool {
	q := b.queue
	reply, err := req.send(ctx)
	q.mu.Lock()
	if b.abandoned {
		q.abandoned--
	}
	switch {
	case err != nil && q.engine.closed():
		err = ErrClosed
	case b.abandoned:
	case err == nil || redisx.Final(err):
		q.lastReply.failure, q.lastReply.at = nil, time.Now() // Redis has replied
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()): // otherwise nobody has said anything
		q.lastReply.failure = err
	}
	b.settle(req, reply, err)
	q.start()
	goesOn, idle, done := !b.abandoned, false, b.served
	if b.abandoned {
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
	b.served, b.waiting = b.served[:0], notUnderWay
	var outcome batchOutcome
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
		outcome.add(w, v, e)
		b.dismiss(w, v, e, outcome.refused)
	}
	clear(b.waiters)
	b.waiters = b.waiters[:0]
	if b.abandoned {
		return // what it was granted goes back (desert)
	}
	if outcome.unclaimed > 0 && !req.isRelease() {
		outcome.unclaimed = b.regrant(outcome.unclaimed)
	}
	q.noteUnowned(req, err, outcome.granted-outcome.unclaimed, outcome.unclaimed)
	if err != nil && b.hung(err) {
		b.shareError(err)
	}
	if !req.isRelease() {
		if reply.rate > 0 {
			q.lastReply.rate = reply.rate
		}
		q.portion.noteBatch(outcome, reply, b.began)
		b.plan(outcome.refused)
	}
}

// dismiss lets a waiter of the batch go: with its result, or into the line.
// Guarded by mu.
func (b *batch) dismiss(w *waiter, v Verdict, err error, first refusal) {
	switch {
	case w.state == gone:
		w.remove()
	case err != nil || v.OK || !w.Waits() || w.isFinal(b.number) && first.covers(w):
		b.deliver(w, v, err)
	case w.state == probed:
		w.state = inLine
	default:
		b.queue.line.stand(w)
	}
}

// hung reports whether the batch has failed as one that hangs. One that was
// cancelled did not: everybody had left.
func (b *batch) hung(err error) bool {
	return !redisx.Answered(err) && !errors.Is(err, context.Canceled) &&
		time.Since(b.began) > hangsAfter
}

// deliver gives a waiter its result. It is none of the queue's then. Guarded by mu.
func (b *batch) deliver(w *waiter, v Verdict, err error) {
	w.finish(v, err)
	b.served = append(b.served, w)
}

// share gives the error of a batch that has hung to those behind it who have
// no other bound: they do not pay twice. Guarded by mu.
func (b *batch) shareError(err error) {
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
func (b *batch) regrant(unclaimed int64) int64 {
	q := b.queue
	for w := q.line.first; w != nil && !w.ofGroup() && w.Permits <= unclaimed; w = q.line.first {
		unclaimed -= w.Permits
		b.deliver(w, Verdict{OK: true}, nil)
		q.line.scheduleProbe()
	}
	return unclaimed
}

// plan decides when the line is probed next. If somebody in it was refused,
// those behind it are, too: the batch decides for those whose timeout had
// passed, and the head is due no earlier, unless it wants less. Otherwise the
// next batch goes on with the line. Guarded by mu.
func (b *batch) plan(first refusal) {
	q := b.queue
	if first.waiter != nil && q.line.expired > 0 {
		q.line.all(func(w *waiter) {
			if w.isFinal(b.number) && first.covers(w) {
				b.deliver(w, Verdict{}, nil)
			}
		})
	}
	switch head := q.line.first; {
	case head == nil || !b.includesLine && first.waiter == nil:
	case first.waiter == nil || head.Permits < first.Permits:
		q.line.scheduleProbe()
	case q.portion.left > 0:
		q.line.dueAfter(q.portion.nextLook().Sub(b.began).Microseconds(), b.began)
		q.line.refusedUntil = time.Time{} // it could serve some, whose turn it is not
	default:
		q.line.dueAfter(first.wait, b.began)
	}
}

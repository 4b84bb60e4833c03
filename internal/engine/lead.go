package engine

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// keepsDeadline reports whether go-redis ends the request of a caller in time, so that
// the caller need not be able to leave it. It does so at a deadline, not when the context
// is cancelled. A cancellation before the deadline takes effect late once, if Redis is
// silent: after that, callers can leave until Redis has replied again.
func (l *Limiter) keepsDeadline(ctx context.Context, wanted Want) bool {
	if l.engine.silent[l.Server()].Load() {
		return false
	}
	_, dated := ctx.Deadline()
	return dated || ctx.Done() == nil && (wanted.Timed() || wanted.Budget > 0)
}

// repliesBy returns when a waiter that has just come leaves without a reply, and the reason; the zero Time
// if only its context ends it.
func (w *waiter) repliesBy() (end time.Time, why error) {
	if w.Timed() {
		end, why = w.expiresAt().Add(Grace), limit.ErrNoAnswer
	}
	if spent := w.enteredAt.Add(w.Budget); w.Budget > 0 && (why == nil || spent.Before(end)) {
		end, why = spent, errSilent
	}
	return end, why
}

// lead carries out the request of a lone caller in the goroutine of that caller: handing
// it to another goroutine would take longer than all other work in Go. A worker serves
// callers that have arrived meanwhile.
func (b *batch) lead(w *waiter, req *request) {
	q := b.queue
	ctx := requestContext{q.engine.Context(), w.ctx, q}
	if w.canLeave {
		ctx.Context = w.ctx
	}
	if end, why := w.repliesBy(); why != nil {
		timed, cancel := context.WithDeadlineCause(ctx.Context, end, why)
		defer cancel()
		ctx.Context = timed
	}
	b.leader = w
	sent := false
	defer func() {
		if !sent { // a hook of go-redis has panicked, and w will not read its result
			q.mu.Lock()
			if !b.abandoned {
				q.abandonBatch()
			}
			q.abandoned--
			q.start()
			q.mu.Unlock()
			q.engine.queues.retire(q)
		}
	}()
	goesOn := b.send(ctx, req)
	if sent = true; goesOn && !q.engine.Work(b.run) {
		q.mu.Lock()
		q.busy = false
		q.close()
		q.mu.Unlock()
		q.engine.queues.retire(q)
	}
}

// ended returns the error of a batch. A leader whose timeout or budget has ended the request leaves as other
// callers do. Guarded by mu.
func (b *batch) ended(ctx context.Context, err error) error {
	if err == nil || b.leader == nil {
		return err
	}
	why := context.Cause(ctx)
	if why != limit.ErrNoAnswer && why != errSilent || redisx.Final(err) {
		return err
	}
	cause := err
	if errors.Is(err, context.DeadlineExceeded) {
		cause = b.queue.lastReply.failure
	}
	if why == errSilent {
		return Silent(b.leader.Budget, cause)
	}
	return unanswered(why, cause)
}

// noteReply records whether the server of the limiter replies in time, for keepsDeadline. Both are called if
// go-redis keeps deadlines.
func (l *Limiter) noteReply(ctx context.Context, sent time.Time, err error) {
	silent := time.Since(sent) > hangsAfter || err != nil && !redisx.Final(err)
	before := &l.engine.silent[l.Server()]
	if silent != before.Load() && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		before.Store(silent)
	}
}

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
	if !l.engine.config.Runner.KeepsDeadlines || wanted.Budget > 0 || l.engine.silent[l.Server()].Load() {
		return false
	}
	_, dated := ctx.Deadline()
	return dated || ctx.Done() == nil && wanted.Timed()
}

// lead carries out the request of a lone caller in the goroutine of that caller: handing
// it to another goroutine would take longer than all other work in Go. A worker serves
// callers that have arrived meanwhile.
func (b *batch) lead(w *waiter, req *request) {
	q := b.queue
	ctx := requestContext{q.engine.ctx, w.ctx, q}
	if w.canLeave {
		ctx.Context = w.ctx
	}
	if w.Timed() {
		timed, cancel := context.WithDeadlineCause(ctx.Context, w.expiresAt().Add(Grace), limit.ErrNoAnswer)
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

// ended returns the error of a batch. A leader whose timeout has ended the request
// leaves as other callers do at their timeouts. Guarded by mu.
func (b *batch) ended(ctx context.Context, err error) error {
	switch why := context.Cause(ctx); {
	case err == nil, b.leader == nil, why != limit.ErrNoAnswer, redisx.Final(err):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return unanswered(why, b.queue.lastReply.failure)
	default:
		return unanswered(why, err)
	}
}

// noteReply records whether the server of the limiter replies in time.
func (l *Limiter) noteReply(ctx context.Context, sent time.Time, err error) {
	silent := time.Since(sent) > hangsAfter || err != nil && !redisx.Final(err)
	before := &l.engine.silent[l.Server()]
	if silent != before.Load() && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		before.Store(silent)
	}
}

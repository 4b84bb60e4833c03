package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// groupCallsAtOnce is how many calls of Groups an Engine has under way per
// server. The bound is per server, so that a silent server does not delay calls
// to the rest. Each call needs a session of its own, which is a field in the hash
// of each limiter: without the bound, hashes would grow with the callers.
const groupCallsAtOnce = 16

// sessions holds the sessions of Group calls to the limiters of one server. A session
// remembers only its last request. So a call owns one while it may be under way, and
// until it is known that nothing is to be withdrawn.
type sessions struct {
	underWay chan struct{} // one element per call whose caller waits

	mu        sync.Mutex
	free      []any     // guarded by mu, as below
	repliedAt time.Time // when a call last got a reply
	hang      *hang     // the next one; nil if no caller waits for room
}

// errLeft is the outcome of a call that its caller has left.
var errLeft = errors.New("no reply from Redis")

// A hang is a call that hung until go-redis gave up. Callers that wait for room get its error.
type hang struct {
	over chan struct{} // closed when err is set
	err  error
}

// next returns the next hang.
func (s *sessions) next() *hang {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang == nil {
		s.hang = &hang{over: make(chan struct{})}
	}
	return s.hang
}

// enter waits until there is room for one more call under way. If one of those under way hangs, those that
// wait get its error (hang.concerns): a silent Redis would hold them once more for each 16 callers ahead.
func (s *sessions) enter(ctx, closing context.Context) error {
	select {
	case s.underWay <- struct{}{}:
		return nil
	default:
	}
	for {
		hang := s.next()
		select {
		case s.underWay <- struct{}{}:
			select {
			case <-hang.over: // the call that made room has hung
				if hang.concerns(ctx) {
					<-s.underWay
					return hang.err
				}
			default:
			}
			return nil
		case <-hang.over:
			if hang.concerns(ctx) {
				return hang.err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-closing.Done():
			return failure.ErrClosed
		}
	}
}

// concerns reports whether a caller that waits for room gets the error. That the caller of the hanging call
// has left says nothing to one that has a deadline of its own.
func (h *hang) concerns(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return h.err != errLeft || !bounded
}

// note records the outcome of a call that began at a time, before it makes room for another one. It hung
// if no call has got a reply since then and go-redis has given up, or its caller has after leftHangsAfter.
func (s *sessions) note(began time.Time, err error) {
	const leftHangsAfter = 5 * time.Second // the ReadTimeout of go-redis: less may be a Redis that is slow
	hangsAfter := queue.HangsAfter
	if err == errLeft {
		hangsAfter = leftHangsAfter
	}
	_, ours := err.(*failure.Error) // says more than that Redis is silent, and may name a limiter
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil || redisx.Answered(err):
		s.repliedAt = time.Now()
	case s.hang != nil && !ours && time.Since(began) > hangsAfter && s.repliedAt.Before(began):
		s.hang.err = err
		close(s.hang.over)
		s.hang = nil
	}
}

// take returns an unused session, boxed for go-redis.
func (s *sessions) take(source *request.Source) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		session := s.free[n-1]
		s.free = s.free[:n-1]
		return session
	}
	return source.NewSession()
}

// put returns a session that no copy of a request can reach any more.
func (s *sessions) put(session any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, session)
}

// A lentSession goes back to its pool once, although several attempts may end: after a reply, or when no copy
// of the last attempt can come any more.
type lentSession struct {
	session any
	back    atomic.Bool
	later   *time.Timer // after an error, until the next attempt; puts it back
}

// putOnce is put, for the first of several calls.
func (s *sessions) putOnce(lent *lentSession) {
	if lent.back.CompareAndSwap(false, true) {
		s.put(lent.session)
	}
}

package engine

import (
	"context"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// A Limiter is one limiter from a caller's view: a Target, and the Engine that asks about it. It is a cheap
// handle.
type Limiter struct {
	request.Target
	engine *Engine
}

// With returns the limiter with a rate that its acquires set.
func (l *Limiter) With(given *GivenRate) *Limiter {
	other := &Limiter{engine: l.engine}
	other.InitWith(&l.Target, given)
	return other
}

// Together reports whether one script can name the keys of two limiters.
func (l *Limiter) Together(other *Limiter) bool { return l.Target.Together(&other.Target) }

// Usable returns an error if a call cannot go ahead: that of the limiter, of a closed
// Engine, or of an ended ctx.
func (l *Limiter) Usable(ctx context.Context) error { return l.Check(ctx, 0, 0) }

// Check returns an error if permits is below least or above MaxPermits, or if a call cannot go ahead
// (Usable).
func (l *Limiter) Check(ctx context.Context, permits, least int64) error {
	switch {
	case permits < least || permits > request.MaxPermits:
		return l.Named(request.CheckPermits(permits, least))
	case l.Err != nil:
		return l.Err
	case l.engine.Closed():
		return failure.ErrClosed
	}
	return ctx.Err()
}

// Acquire asks for permits until it gets them, the timeout passes or ctx ends.
// Check has checked its arguments.
func (l *Limiter) Acquire(ctx context.Context, wanted Want) (Result, error) {
	v, err := l.engine.queues.Ask(ctx, &l.Target, wanted)
	if err == nil && !v.OK && !wanted.Waits() {
		var freed bool
		if wanted.Budget, freed = l.engine.upper.Free(ctx, wanted.Budget, &l.Target); freed {
			again, err := l.engine.queues.Ask(ctx, &l.Target, wanted)
			if err == nil { // otherwise Redis has said no
				return again, nil
			}
		}
	}
	if err != nil {
		err = l.Named(err)
	}
	return v, err
}

// Release gives permits back. Check has checked its arguments.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	defer l.engine.upper.Wrote(l.Hash)
	_, err := l.engine.queues.Ask(ctx, &l.Target, Want{Permits: permits, Release: true})
	return l.Named(err)
}

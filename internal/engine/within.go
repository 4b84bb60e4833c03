package engine

import (
	"context"
	"sync/atomic"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// within runs f, which asks Redis, and returns its result, or an error when ctx
// ends or the Engine is closed. f may then go on in its goroutine, so it must not
// write to variables that the caller of within reads.
func within[T any](
	ctx context.Context, l *Limiter, f func(ctx context.Context) (T, error),
) (none T, _ error) {
	if err := l.Usable(ctx); err != nil {
		return none, err
	}
	type outcome struct {
		v   T
		err error
	}
	var lastFailure atomic.Pointer[error]
	o, left := redisx.Leave(ctx, l.engine.Context(), l.engine.Work, func(closing context.Context) outcome {
		ctx, cancel := context.WithCancel(ctx)
		ctx = context.WithValue(ctx, redisx.FailureKey{}, func(err error) { lastFailure.Store(&err) })
		defer cancel()
		defer context.AfterFunc(closing, cancel)()
		v, err := f(ctx)
		return outcome{v, err}
	}, nil)
	switch {
	case l.engine.Closed() && (left || o.err != nil && !redisx.Final(o.err)):
		return none, failure.ErrClosed
	case left:
		o.err = ctx.Err()
	}
	// The end of ctx says nothing about Redis, but an earlier failure does, so the error
	// has both.
	if cause := lastFailure.Load(); cause != nil && ctx.Err() != nil && o.err == ctx.Err() {
		return none, l.Named(failure.Unanswered(ctx.Err(), *cause))
	}
	return o.v, l.Named(failure.WithContextEnd(ctx, o.err))
}

// changes is within for an f that may free permits or change the rate: the Upper forgets what Redis has
// said before.
func changes[T any](
	ctx context.Context, l *Limiter, f func(ctx context.Context) (T, error),
) (T, error) {
	return within(ctx, l, func(ctx context.Context) (T, error) {
		defer l.engine.upper.Wrote(l.Hash)
		return f(ctx)
	})
}

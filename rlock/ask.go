package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// ask runs call, which sends a request, and returns its result, or an error when ctx or the Client
// ends. A result that arrives later goes to late, unless that is nil.
func ask[T any](ctx context.Context, k *keys, call func(ctx context.Context) (T, error),
	late func(T, error)) (none T, err error) {
	if err := k.usable(ctx); err != nil {
		return none, err
	}
	return leave(ctx, redisx.Undated{Context: ctx}, k, call, late)
}

// leave is ask for a request that is sent even if ctx has ended. If the caller may have to return before
// the reply, call runs in another goroutine, with away as its context.
func leave[T any](ctx, away context.Context, k *keys, call func(ctx context.Context) (T, error),
	late func(T, error)) (none T, err error) {
	if k.client.returnsInTime(ctx) {
		return inPlace(ctx, k, call, late)
	}
	type outcome struct {
		v   T
		err error
	}
	out, left := redisx.Leave(ctx, k.client.host.Ctx, k.client.host.Work, func(context.Context) outcome {
		v, err := call(away)
		return outcome{v, err}
	}, func(out outcome) {
		if late != nil {
			late(out.v, out.err)
		}
	})
	switch {
	case !left:
		return out.v, k.outcome(ctx, out.err)
	case k.client.host.Ctx.Err() != nil:
		return none, rratelimiter.ErrClosed
	}
	return none, ended(ctx)
}

// outcome returns the error of a request, or that of ctx if its end was the cause.
func (k *keys) outcome(ctx context.Context, err error) error {
	if why := ctx.Err(); why != nil && errors.Is(err, why) {
		return ended(ctx)
	}
	return k.failed(err)
}

// returnsInTime reports whether a request made in the goroutine of its caller returns by the end of ctx:
// because ctx has none, or because go-redis stops reading at its deadline. Handing the request to another
// goroutine costs more than all other work in Go.
func (c *Client) returnsInTime(ctx context.Context) bool {
	if ctx.Done() == nil {
		return true
	}
	_, dated := ctx.Deadline()
	return dated && c.host.Runner.KeepsDeadlines && ctx.Err() == nil
}

// inPlace makes a request in the goroutine of its caller.
func inPlace[T any](ctx context.Context, k *keys, call func(ctx context.Context) (T, error),
	late func(T, error)) (none T, err error) {
	c := k.client
	c.inPlace.RLock()
	defer c.inPlace.RUnlock()
	c.awaited.Do(func() { c.host.Go(c.awaitInPlace) })
	if c.host.Ctx.Err() != nil {
		return none, rratelimiter.ErrClosed
	}
	v, err := call(ctx)
	if c.host.Ctx.Err() != nil {
		if late != nil {
			late(v, err)
		}
		return none, rratelimiter.ErrClosed
	}
	if err != nil && !redisx.Answered(err) && over(ctx) {
		return none, ended(ctx)
	}
	return v, k.outcome(ctx, err)
}

// awaitInPlace makes Close wait for calls under way in inPlace, because a lock granted meanwhile has to be
// given back.
func (c *Client) awaitInPlace(ctx context.Context) {
	<-ctx.Done()
	c.inPlace.Lock()
	defer c.inPlace.Unlock() // later calls see that the Client is closed
}

// over reports whether ctx has ended, and waits for that if its deadline has passed: go-redis stops by the
// clock, which may be a moment earlier.
func over(ctx context.Context) bool {
	if at, dated := ctx.Deadline(); dated && !time.Now().Before(at) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

package rratelimiter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// goBackground runs f in a goroutine that Close waits for; f must end when
// the context it gets does. It reports whether it did: a closed Client runs nothing.
func (c *Client) goBackground(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := c.closed()
	if !closed {
		c.background.Go(func() { f(c.ctx) })
	}
	return !closed
}

// At most maxIdle workers of a Client wait for the next job, each for idleFor: enough
// for some busy limiters, and no goroutines for long in a process that asks seldom.
const (
	maxIdle = 8
	idleFor = time.Second
)

// work is goBackground for what asks Redis and is soon done. Its goroutine takes
// the next job after it, for go-redis needs a large stack, which takes 10 us to
// grow.
func (c *Client) work(job func(ctx context.Context)) bool {
	select {
	case c.jobs <- job:
		return true
	default:
	}
	return c.goBackground(func(ctx context.Context) {
		timer := time.NewTimer(idleFor)
		defer timer.Stop()
		for more := true; more; c.idle.Add(-1) {
			job(ctx)
			more = c.idle.Add(1) <= maxIdle
			if !more {
				continue
			}
			timer.Reset(idleFor)
			select {
			case job = <-c.jobs:
			case <-timer.C:
				more = false
			case <-ctx.Done():
				more = false
			}
		}
	})
}

// within runs f, which asks Redis, and returns what f returns, or an error when
// ctx ends or the Client is closed. Then f may go on for as long as go-redis
// reads one reply, for go-redis ignores the context meanwhile.
func within[T any](ctx context.Context, k *limiterKeys, f func(ctx context.Context) (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	if err := k.usable(ctx); err != nil {
		return none, err
	}
	var said atomic.Pointer[error]
	done := make(chan outcome, 1)
	if !k.client.work(func(closing context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		ctx = context.WithValue(ctx, redisx.FailureKey{}, func(err error) { said.Store(&err) })
		defer cancel()
		defer context.AfterFunc(closing, cancel)()
		v, err := f(ctx)
		done <- outcome{v, err}
	}) {
		return none, ErrClosed
	}
	var o outcome
	select {
	case o = <-done:
	case <-k.client.ctx.Done():
		return none, ErrClosed
	case <-ctx.Done():
		select {
		case o = <-done:
		default:
			o.err = ctx.Err()
		}
	}
	// The end of ctx says nothing of Redis; what Redis or the network said before does.
	if cause := said.Load(); cause != nil && ctx.Err() != nil && o.err == ctx.Err() {
		return none, k.named(k.unanswered(ctx.Err(), *cause))
	}
	return o.v, k.named(k.ended(ctx, o.err))
}

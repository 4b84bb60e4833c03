package rlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// undated is a context without its deadline. Its end stops what waits for a connection,
// but not the reply to what was sent: whether it was carried out must be known.
type undated struct{ context.Context }

// Deadline returns none.
func (undated) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// ask returns what call returns, which asks Redis, or an error at the end of ctx or of
// the Client. Then late, if there is one, gets what call returns to nobody.
func ask[T any](ctx context.Context, k *keys, call func(ctx context.Context) (T, error),
	late func(T, error)) (none T, err error) {
	if err := k.usable(ctx); err != nil {
		return none, err
	}
	return leave(ctx, k, call, late)
}

// leave is ask for what is to be done also if ctx has ended.
func leave[T any](ctx context.Context, k *keys, call func(ctx context.Context) (T, error),
	late func(T, error)) (none T, err error) {
	type outcome struct {
		v   T
		err error
	}
	var settled atomic.Bool // who sets it says whether the caller gets the outcome
	done := make(chan outcome, 1)
	if !k.client.host.Work(func(context.Context) {
		v, err := call(undated{ctx})
		switch {
		case settled.CompareAndSwap(false, true):
			done <- outcome{v, err}
		case late != nil:
			late(v, err)
		}
	}) {
		return none, rratelimiter.ErrClosed
	}
	result := func(out outcome) (T, error) {
		if why := ctx.Err(); why != nil && errors.Is(out.err, why) { // what asked was the first to see it
			return out.v, ended(ctx)
		}
		return out.v, k.failed(out.err)
	}
	select {
	case out := <-done:
		return result(out)
	case <-ctx.Done():
		err = ended(ctx)
	case <-k.client.host.Ctx.Done():
		err = rratelimiter.ErrClosed
	}
	if settled.CompareAndSwap(false, true) {
		return none, err
	}
	return result(<-done)
}

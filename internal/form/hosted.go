package form

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/limit"
)

// A hosted is a store of a Client: the fallback of the Client decides when Redis has failed, and its
// Observer learns of each call.
type hosted struct {
	*store
	local Form
}

// retryDenied is the RetryAfter of calls that are refused because Redis has failed. The Client probes Redis
// at least as often.
const retryDenied = time.Second

// Allow implements Form.
func (h hosted) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	r, _, err := h.Lend(ctx, key, n)
	return r, err
}

// Lend implements Form. If Redis has not decided, the Decision has no Stamp, or one of memory.
func (h hosted) Lend(ctx context.Context, key string, n int64) (limit.Result, Decision, error) {
	return h.take(ctx, key, n, false, func(ctx context.Context, f Form) (limit.Result, Decision, error) {
		return f.Lend(ctx, key, n)
	})
}

// Charge implements Form. If Redis has failed and memory does not decide, it returns the error: a cost that
// is not counted must not look charged.
func (h hosted) Charge(ctx context.Context, key string, n int64) (limit.Result, error) {
	r, _, err := h.take(ctx, key, n, true, func(ctx context.Context, f Form) (limit.Result, Decision, error) {
		r, err := f.Charge(ctx, key, n)
		return r, Decision{}, err
	})
	return r, err
}

// take asks Redis or the fallback, and tells the Observer.
func (h hosted) take(ctx context.Context, key string, n int64, charge bool,
	call func(ctx context.Context, f Form) (limit.Result, Decision, error),
) (r limit.Result, d Decision, err error) {
	start := time.Now()
	name, err := h.check(ctx, key, n, charge)
	if err != nil {
		h.Observe(ctx, h.name, key, host.Call{Permits: n, Err: err, Start: start})
		return r, d, err
	}
	sent := false
	instead, err := h.Ask(ctx, name, func(ctx context.Context) (err error) {
		sent = true
		r, d, err = call(ctx, h.store)
		return err
	})
	switch {
	case instead == host.Local:
		r, d, err = call(ctx, h.local)
		r.Degraded, d.By = true, Memory
	case charge && err != nil:
		if !sent {
			err = unsent{err}
		}
	case instead == host.Allow, instead == host.Deny:
		d = Decision{Allowed: instead == host.Allow, By: Fallback}
		r = limit.Result{Allowed: d.Allowed, Limit: h.Limit, Interval: h.Interval, Degraded: true}
		if err = nil; !d.Allowed {
			r.RetryAfter, d.Retry = retryDenied, retryDenied.Microseconds()
		}
	}
	r.Name, r.Policy = name, h.policy
	if err != nil {
		r = limit.Result{}
	}
	h.Observe(ctx, h.name, key, host.Call{Permits: n, Result: r, Err: err, Start: start})
	return r, d, err
}

// Peek implements Form.
func (h hosted) Peek(ctx context.Context, key string) (r limit.Result, err error) {
	name, err := h.check(ctx, key, 1, false)
	if err != nil {
		return r, err
	}
	instead, err := h.host.Ask(ctx, name, func(ctx context.Context) (err error) {
		r, err = h.store.Peek(ctx, key)
		return err
	})
	if instead == host.Local {
		r, err = h.local.Peek(ctx, key)
		r.Name, r.Policy, r.Degraded = name, h.policy, true
	}
	return r, err
}

// Return implements Form.
func (h hosted) Return(ctx context.Context, key string, n int64, d Decision) error {
	switch d.By {
	case Memory:
		return h.local.Return(ctx, key, n, d)
	case Fallback:
		return nil
	}
	name, err := h.check(ctx, key, n, false)
	if err != nil {
		return err
	}
	return h.Tell(ctx, name, func(ctx context.Context) error { return h.store.Return(ctx, key, n, d) })
}

// Release implements Form.
func (h hosted) Release(ctx context.Context, key string, n int64) error {
	name, err := h.check(ctx, key, n, false)
	if err != nil {
		return err
	}
	instead, err := h.Ask(ctx, name, func(ctx context.Context) error { return h.store.Release(ctx, key, n) })
	if instead == host.Local {
		err = h.local.Release(ctx, key, n)
	}
	return err
}

package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/limit"
)

// defaultTimeout is that of WithTimeout: many times what Redis takes, and less than a
// caller minds.
const defaultTimeout = 100 * time.Millisecond

// A gate decides on calls: what all interceptors share.
type gate struct {
	limiter limit.Keyed
	wrong   error // what it says of its configuration
	key     Key

	cost    func(ctx context.Context, fullMethod string, message any) int64 // nil: 1
	hook    func(ctx context.Context, d Decision)                           // may be nil
	policy  string
	timeout time.Duration // 0 or less: none

	open, shadow, perMessage bool

	bounded bool // maxWait is set
	maxWait time.Duration
}

func newGate(limiter limit.Keyed, key Key) *gate {
	if limiter == nil || key == nil {
		panic("grpclimit: the limiter or the key is nil")
	}
	return &gate{limiter: limiter, key: key, timeout: defaultTimeout, wrong: limit.Validate(limiter)}
}

// An ask is how a gate comes to a result: once for a server, waiting for a client.
type ask func(ctx context.Context, key string, permits int64) (limit.Result, error)

// pass asks about one call. The answer is nil if the call goes on.
func (g *gate) pass(ctx context.Context, fullMethod string, message any, ask ask) *answer {
	d := Decision{FullMethod: fullMethod, Permits: 1}
	if g.cost != nil {
		d.Permits = g.cost(ctx, fullMethod, message)
	}
	if d.Permits <= 0 {
		return nil
	}
	var a *answer
	if d.Key, d.Err = g.key(ctx, fullMethod); d.Err != nil {
		a = g.keyFailed(ctx, d.Err)
	} else if d.Err = g.wrong; d.Err != nil {
		a = g.judge(ctx, d.Result, d.Err)
	} else {
		d.Result, d.Err = ask(ctx, d.Key, d.Permits)
		a = g.judge(ctx, d.Result, d.Err)
		if user, ok := errors.AsType[userError](d.Err); ok {
			d.Err = user.error
			a = g.keyFailed(ctx, d.Err)
		}
	}
	if g.shadow {
		a = nil
	}
	if d.Passed = a == nil; g.hook != nil {
		g.hook(ctx, d)
	}
	return a
}

// keyFailed returns the answer to a call whose Key returned err. A status is the user's
// own word to the peer. That of a limiter is not: it may be of another server. WithFailOpen
// is not for a Key: who can spoil it would not be limited.
func (g *gate) keyFailed(ctx context.Context, err error) *answer {
	if own, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return &answer{status: own.GRPCStatus()}
	}
	if a := g.judge(ctx, limit.Result{}, err); a != nil {
		return a
	}
	return failed()
}

// judge returns the answer to a result, nil if the call goes on.
func (g *gate) judge(ctx context.Context, r limit.Result, err error) *answer {
	switch {
	case err == nil && r.Allowed:
		return nil
	case err == nil:
		return refused(g.policy, r)
	case ctx.Err() != nil: // the caller has gone, which is not the limiter's fault
		return &answer{status: status.FromContextError(ctx.Err())}
	case errors.Is(err, limit.ErrPermitsExceedRate):
		return exceeds(g.policy)
	case errors.Is(err, limit.ErrInvalidArgument) && !errors.Is(err, limit.ErrMisconfigured):
		return badKey()
	case g.open:
		return nil
	}
	return failed()
}

// allow makes one attempt within the timeout.
func (g *gate) allow(ctx context.Context, key string, permits int64) (limit.Result, error) {
	ctx, cancel := g.within(ctx)
	defer cancel()
	return g.limiter.Allow(ctx, key, permits)
}

// within bounds ctx by the timeout.
func (g *gate) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, g.timeout)
}

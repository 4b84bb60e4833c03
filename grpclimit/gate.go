package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// defaultTimeout is longer than a healthy Redis needs, and too short for a user to notice.
const defaultTimeout = 100 * time.Millisecond

// A gate decides which calls go on. All interceptors share it.
type gate struct {
	limiter limit.Keyed
	wrong   error // the result of limit.Validate
	key     Key

	cost    func(ctx context.Context, fullMethod string, message any) int64 // nil: 1
	hook    func(ctx context.Context, d Decision)                           // may be nil
	policy  string
	timeout time.Duration // 0 or less: none

	open, shadow, perMessage bool

	settles  bool // the handler or the reader of a stream may call Settle
	actual   func(ctx context.Context, o Outcome) int64
	reserver limit.KeyedReserver // is limiter, nil if calls do not reserve, or rules do

	bounded bool // maxWait is set
	maxWait time.Duration
}

func newGate(limiter limit.Keyed, key Key) *gate {
	if limiter == nil || key == nil {
		panic("grpclimit: the limiter or the key is nil")
	}
	return &gate{limiter: limiter, key: key, timeout: defaultTimeout, wrong: limit.Validate(limiter)}
}

// An ask gets the result for one call. A server gets it at once; a client waits for permits.
type ask func(ctx context.Context, key string, permits int64) (limit.Result, error)

// pass decides whether a call goes on, and returns nil or its refusal.
func (g *gate) pass(ctx context.Context, fullMethod string, message any, ask ask) *refusal {
	d := Decision{FullMethod: fullMethod, Permits: 1}
	if g.cost != nil {
		d.Permits = g.cost(ctx, fullMethod, message)
	}
	if d.Permits <= 0 {
		return nil
	}
	refused := g.decide(ctx, &d, ask)
	if g.shadow {
		refused = nil
	}
	if d.Passed = refused == nil; g.hook != nil {
		g.hook(ctx, d)
	}
	return refused
}

// decide finds the key of d and its Result or Err, and returns the refusal that the peer gets.
func (g *gate) decide(ctx context.Context, d *Decision, ask ask) *refusal {
	if d.Key, d.Err = g.key(ctx, d.FullMethod); d.Err != nil {
		return g.keyFailed(ctx, d.Err)
	}
	if d.Err = g.wrong; d.Err == nil {
		d.Result, d.Err = ask(ctx, d.Key, d.Permits)
	}
	if user, ok := errors.AsType[admission.KeyError](d.Err); ok { // the Key of a rule failed
		d.Err = user.Err
		return g.keyFailed(ctx, d.Err)
	}
	return g.judge(ctx, d.Result, d.Err)
}

// keyFailed returns the refusal of a call whose Key returned err. A status in err is meant for the
// peer, unlike that of a limiter, which may come from another server. WithFailOpen does not apply: a
// peer with a broken key would bypass the limit.
func (g *gate) keyFailed(ctx context.Context, err error) *refusal {
	if failure, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return &refusal{status: failure.GRPCStatus()}
	}
	if r := g.judge(ctx, limit.Result{}, err); r != nil {
		return r
	}
	return limiterFailed()
}

// judge returns the refusal for a result or an error, nil if the call goes on.
func (g *gate) judge(ctx context.Context, r limit.Result, err error) *refusal {
	switch {
	case err == nil && r.Allowed:
		return nil
	case err == nil:
		return exhausted(g.policy, r)
	case ctx.Err() != nil: // the caller has left, which is not the limiter's fault
		return &refusal{status: status.FromContextError(ctx.Err())}
	}
	switch fault := admission.FaultOf(err); {
	case fault == admission.FaultOfCost:
		return costTooHigh(g.policy)
	case fault == admission.FaultOfKey:
		return badKey()
	case g.open:
		return nil
	}
	return limiterFailed()
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

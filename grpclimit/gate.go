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
	limits admission.Limits
	wrong  error // the result of limit.Validate
	key    Key

	cost    func(ctx context.Context, fullMethod string, message any) int64 // nil: 1
	hook    func(ctx context.Context, d Decision)                           // may be nil
	policy  string
	timeout time.Duration // 0 or less: none

	open, shadow, perMessage bool

	settles bool // the handler or the reader of a stream may call Settle
	actual  func(ctx context.Context, o Outcome) int64

	bounded bool // maxWait is set
	maxWait time.Duration
}

func newGate[L limit.Limiter](limiter limit.Keyed[L], key Key) *gate {
	if limiter == nil || key == nil {
		panic("grpclimit: the limiter or the key is nil")
	}
	limits, err := admission.LimitsOf(limiter)
	return &gate{limits: limits, key: key, timeout: defaultTimeout, wrong: err}
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
	return g.limits.Allow(ctx, key, permits)
}

// within bounds ctx by the timeout.
func (g *gate) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, g.timeout)
}

// A ServerOption is an option of the interceptors of a server.
type ServerOption interface{ forServer(*gate) }

// A ClientOption is an option of the interceptors of a client.
type ClientOption interface{ forClient(*gate) }

// An Option is an option of the interceptors of servers and of clients.
type Option interface {
	ServerOption
	ClientOption
}

type option func(*gate)

func (set option) forServer(g *gate) { set(g) }
func (set option) forClient(g *gate) { set(g) }

type clientOption func(*gate)

func (set clientOption) forClient(g *gate) { set(g) }

// WithCost sets the cost of a call. message is the request of a unary call, the message with
// WithPerMessage, and nil when a stream begins. A call that costs 0 or less goes on without asking the
// limiter or calling the hook. The default is 1.
func WithCost(cost func(ctx context.Context, fullMethod string, message any) int64) Option {
	return option(func(g *gate) { g.cost = cost })
}

// WithPolicy names the limit for the peer: the subject of the QuotaFailure. The name is the same for
// all keys, so it reveals none. The default is the Policy of the Result: the name of a Keyed or of a rule,
// otherwise empty.
func WithPolicy(name string) Option {
	return option(func(g *gate) { g.policy = name })
}

// WithTimeout bounds one call of the limiter; after d the limiter has failed. It does not bound a Key
// or waiting (WithMaxWait). With 0 or less only the end of the call bounds it. The default is 100 ms.
func WithTimeout(d time.Duration) Option {
	return option(func(g *gate) { g.timeout = d })
}

// WithFailOpen lets calls proceed if the limiter fails. An invalid call is still refused: one whose
// Key fails, whose key the limiter rejects, or that costs more permits than the limit has. The
// default is to refuse with UNAVAILABLE.
func WithFailOpen() Option {
	return option(func(g *gate) { g.open = true })
}

// WithShadow asks the limiter and calls the hook, but lets all calls go on, to show which calls a
// limit would refuse. A client does not wait. The default is to refuse.
func WithShadow() Option {
	return option(func(g *gate) { g.shadow = true })
}

// WithPerMessage charges a stream for each message instead of once when it begins: a server after it
// has received one, a client before it sends one. A refused message ends the stream. After the first
// response of a server gRPC does not retry a refusal, whatever the retry policy says (gRFC A6). It does
// not change unary calls. The default is one charge for each stream.
func WithPerMessage() Option {
	return option(func(g *gate) { g.perMessage = true })
}

// WithHook calls hook once for each decision about a call or message, in the goroutine of the call,
// which waits for it, and for each settlement that failed (Settle, WithActual). Many goroutines call it
// at once. The default is none.
func WithHook(hook func(ctx context.Context, d Decision)) Option {
	return option(func(g *gate) { g.hook = hook })
}

// WithMaxWait bounds how long a client waits for its turn. A call that would have to wait
// longer is refused with RESOURCE_EXHAUSTED: after d if it waits in the line of the limiter (a
// limit.Acquirer), at once if it waits for RetryAfter. The default is the end of the call's
// context; with 0 or less the call does not wait.
func WithMaxWait(d time.Duration) ClientOption {
	return clientOption(func(g *gate) { g.bounded, g.maxWait = true, d })
}

// A Decision is the outcome for one call, for logs and for WithShadow. The peer must not see it.
type Decision struct {
	// FullMethod is "/package.Service/Method", and Key is the key of the call, empty if the Key
	// failed.
	FullMethod, Key string

	// Permits is the cost of the call.
	Permits int64

	// Result is the last result of the limiter, zero after an error. On a client whose limiter
	// has Acquire, only Allowed is set.
	Result limit.Result

	// Err is the error of the limiter or the Key, or that of a settlement. It is nil if there is a
	// Result.
	Err error

	// Passed reports whether the call goes on: it was granted, or WithFailOpen or
	// WithShadow let it through. It is true for a settlement.
	Passed bool
}

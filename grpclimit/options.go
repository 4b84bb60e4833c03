package grpclimit

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A ServerOption is an option of the interceptors of a server.
type ServerOption interface{ forServer(*gate) }

// A ClientOption is an option of the interceptors of a client.
type ClientOption interface{ forClient(*gate) }

// An Option is an option of both.
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
// limit.KeyedAcquirer), at once if it waits for RetryAfter. The default is the end of the call's
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

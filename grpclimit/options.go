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

// WithCost has a call take the permits that cost returns instead of 1. message is the
// request of a unary call, the message with WithPerMessage, and nil where a stream
// begins. A call that costs 0 or less passes; the limiter is not asked, and the hook is
// not called.
func WithCost(cost func(ctx context.Context, fullMethod string, message any) int64) Option {
	return option(func(g *gate) { g.cost = cost })
}

// WithPolicy names the limit for the peer: the subject of the QuotaFailure. It is the
// same for all keys, so it tells nobody's name. The default is empty.
func WithPolicy(name string) Option {
	return option(func(g *gate) { g.policy = name })
}

// WithTimeout bounds how long one call of the limiter may take; what takes longer is a
// failure of the limiter. It does not bound a Key, nor waiting (WithMaxWait). 0 or less is no bound
// but the end of the call. The default is 100 ms.
func WithTimeout(d time.Duration) Option {
	return option(func(g *gate) { g.timeout = d })
}

// WithFailOpen lets calls through when the limiter has failed. What is wrong with the
// call itself is refused all the same: a Key that fails, a key that cannot be used, or more
// permits than the limit has. The default is to refuse with UNAVAILABLE.
func WithFailOpen() Option {
	return option(func(g *gate) { g.open = true })
}

// WithShadow asks the limiter, tells the hook, and lets every call through: to learn
// whom a limit would hit. A client does not wait then. The default is to refuse.
func WithShadow() Option {
	return option(func(g *gate) { g.shadow = true })
}

// WithPerMessage has a stream take permits for each message instead of for its
// beginning: a server when it has received one, a client before it sends one. A message
// that is refused ends the stream. After the first response of a server the refusal is
// no reason for gRPC to retry, whatever the retry policy says (gRFC A6). Unary calls are
// as without it. The default is one charge for each stream.
func WithPerMessage() Option {
	return option(func(g *gate) { g.perMessage = true })
}

// WithHook has hook called once for each call, or message, that the limiter was asked
// about, in the goroutine of the call, which waits for it. It may be called by many
// goroutines at once. The default is none.
func WithHook(hook func(ctx context.Context, d Decision)) Option {
	return option(func(g *gate) { g.hook = hook })
}

// WithMaxWait bounds how long a client waits for its turn. A call that would have to wait
// longer is refused with RESOURCE_EXHAUSTED: after d where it waits in the line of the
// limiter (a limit.KeyedAcquirer), at once where it waits by RetryAfter. The default is the
// end of the call's context; 0 or less does not wait at all.
func WithMaxWait(d time.Duration) ClientOption {
	return clientOption(func(g *gate) { g.bounded, g.maxWait = true, d })
}

// A Decision is what came of one call: for logs, and for WithShadow. It is not for the
// peer.
type Decision struct {
	// FullMethod is "/package.Service/Method", and Key what the Key made of the call,
	// empty if it failed.
	FullMethod, Key string

	// Permits is how many the call cost.
	Permits int64

	// Result is the last that the limiter said, zero after an error. Of a client whose
	// limiter has Acquire it has Allowed only.
	Result limit.Result

	// Err is the error of the limiter or the Key, nil if there is a Result.
	Err error

	// Passed reports whether the call goes on: it was granted, or WithFailOpen or
	// WithShadow let it through.
	Passed bool
}

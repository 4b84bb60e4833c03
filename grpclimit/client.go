package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// UnaryClientInterceptor returns an interceptor that waits for its permits before a call
// is sent: 1 each, unless WithCost says otherwise. A call is charged once, also where
// the retry policy of gRPC sends it several times. It panics if limiter or key is nil.
//
// If limiter is a limit.KeyedAcquirer, as a Keyed and limit.Shared of a RateLimiter are, it
// waits there, in its line. Otherwise it asks Allow again after RetryAfter, until it is allowed.
// Then there is no line, and a call that would wait longer than its deadline or
// WithMaxWait is refused at once.
//
// The errors are statuses as of a server: RESOURCE_EXHAUSTED with RetryInfo, if the limiter
// has told the time, for a call that may not wait long enough; CANCELED or
// DEADLINE_EXCEEDED where the call ended while it waited; UNAVAILABLE if the limiter has
// failed (WithFailOpen). Nothing was sent then. WithTimeout does not bound Acquire: give
// its Client a budget.
func UnaryClientInterceptor(
	limiter limit.Keyed, key Key, opts ...ClientOption,
) grpc.UnaryClientInterceptor {
	g := newClientGate(limiter, key, opts)
	return func(
		ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoker grpc.UnaryInvoker, callOpts ...grpc.CallOption,
	) error {
		if a := g.pass(ctx, method, req, g.wait); a != nil {
			return a.err()
		}
		return invoker(ctx, method, req, reply, cc, callOpts...)
	}
}

// StreamClientInterceptor is UnaryClientInterceptor for streams. A stream waits before it
// begins, with WithPerMessage before each message that it sends instead. Then a refusal is
// the error of SendMsg, and cancels the stream.
func StreamClientInterceptor(
	limiter limit.Keyed, key Key, opts ...ClientOption,
) grpc.StreamClientInterceptor {
	g := newClientGate(limiter, key, opts)
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
		method string, streamer grpc.Streamer, callOpts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if !g.perMessage {
			if a := g.pass(ctx, method, nil, g.wait); a != nil {
				return nil, a.err()
			}
			return streamer(ctx, desc, cc, method, callOpts...)
		}
		ctx, cancel := context.WithCancel(ctx)
		stream, err := streamer(ctx, desc, cc, method, callOpts...)
		if err != nil {
			cancel()
			return nil, err
		}
		return &clientStream{stream, g, method, cancel, desc.ServerStreams}, nil
	}
}

func newClientGate(limiter limit.Keyed, key Key, opts []ClientOption) *gate {
	g := newGate(limiter, key)
	for _, opt := range opts {
		opt.forClient(g)
	}
	return g
}

// A clientStream waits before each message that it sends.
type clientStream struct {
	grpc.ClientStream
	gate       *gate
	fullMethod string
	cancel     context.CancelFunc // ends the stream, and frees its context after its end
	many       bool               // the server sends more than one message
}

// SendMsg sends a message when there are permits for it.
func (s *clientStream) SendMsg(message any) error {
	if a := s.gate.pass(s.Context(), s.fullMethod, message, s.gate.wait); a != nil {
		s.cancel() // an error of SendMsg promises that the stream is over
		return a.err()
	}
	return s.ClientStream.SendMsg(message)
}

// RecvMsg receives a message.
func (s *clientStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err != nil || !s.many { // the stream is over
		s.cancel()
	}
	return err
}

// wait waits for the permits.
func (g *gate) wait(ctx context.Context, key string, permits int64) (limit.Result, error) {
	if line, ok := g.limiter.(limit.KeyedAcquirer); ok && !g.shadow && (!g.bounded || g.maxWait > 0) {
		return g.acquire(ctx, line, key, permits)
	}
	latest, bounded := g.latest(ctx)
	for {
		r, err := g.allow(ctx, key, permits)
		if err != nil || r.Allowed || g.shadow {
			return r, err
		}
		after := r.RetryAfter
		if after <= 0 {
			after = unknownPause
		}
		if bounded && time.Until(latest) < after {
			return r, nil
		}
		if err := pause.For(ctx, after); err != nil {
			return limit.Result{}, err
		}
	}
}

// unknownPause is how long a caller waits that was not told how long to.
const unknownPause = 10 * time.Millisecond

// latest returns until when a call may wait, if that is bounded.
func (g *gate) latest(ctx context.Context) (latest time.Time, bounded bool) {
	latest, bounded = ctx.Deadline()
	if own := time.Now().Add(g.maxWait); g.bounded && (!bounded || own.Before(latest)) {
		return own, true
	}
	return latest, bounded
}

// acquire waits in the line of a limiter. The end of maxWait is a refusal.
func (g *gate) acquire(
	ctx context.Context, line limit.KeyedAcquirer, key string, permits int64,
) (limit.Result, error) {
	within := ctx
	if g.bounded {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, g.maxWait)
		defer cancel()
	}
	err := line.Acquire(within, key, permits)
	if err != nil && err == within.Err() && ctx.Err() == nil {
		return limit.Result{}, nil
	}
	return limit.Result{Allowed: err == nil}, err
}

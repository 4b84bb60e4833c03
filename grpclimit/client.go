package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// UnaryClientInterceptor returns an interceptor that waits for the permits of a call before it sends
// the call: 1, unless WithCost says otherwise. A call is charged once, even if the retry policy of
// gRPC sends it several times. It panics if limiter or key is nil, or limiter cannot reserve what
// WithSettle or WithActual asks for.
//
// If limiter is a limit.KeyedAcquirer, such as a Keyed or limit.Shared of a RateLimiter, the call
// waits in its line. Otherwise the interceptor calls Allow again after RetryAfter, and refuses a
// call at once if it would wait longer than its deadline or WithMaxWait.
//
// The errors are statuses as on a server, for calls that were not sent: RESOURCE_EXHAUSTED, with
// RetryInfo if the limiter reports the time, for a call that may not wait long enough; CANCELED or
// DEADLINE_EXCEEDED for a call that ended while it waited; UNAVAILABLE if the limiter failed
// (WithFailOpen). WithTimeout does not bound Acquire: give its Client a budget.
func UnaryClientInterceptor(
	limiter limit.Keyed, key Key, opts ...ClientOption,
) grpc.UnaryClientInterceptor {
	g := newClientGate(limiter, key, opts)
	return func(
		ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoker grpc.UnaryInvoker, callOpts ...grpc.CallOption,
	) error {
		if g.reserves() {
			invoke := func() error { return invoker(ctx, method, req, reply, cc, callOpts...) }
			return g.newBooking(ctx, method).call(req, reply, invoke)
		}
		if r := g.pass(ctx, method, req, g.wait); r != nil {
			return r.err()
		}
		return invoker(ctx, method, req, reply, cc, callOpts...)
	}
}

// StreamClientInterceptor is UnaryClientInterceptor for streams. A stream waits before it begins, or,
// with WithPerMessage, before each message that it sends. Then SendMsg returns the refusal and cancels
// the stream.
func StreamClientInterceptor(
	limiter limit.Keyed, key Key, opts ...ClientOption,
) grpc.StreamClientInterceptor {
	g := newClientGate(limiter, key, opts)
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
		method string, streamer grpc.Streamer, callOpts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if g.reserves() {
			open := func(ctx context.Context) (grpc.ClientStream, error) {
				return streamer(ctx, desc, cc, method, callOpts...)
			}
			return g.newBooking(ctx, method).openStream(desc, open)
		}
		if !g.perMessage {
			if r := g.pass(ctx, method, nil, g.wait); r != nil {
				return nil, r.err()
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
	g.findReserver()
	return g
}

// A clientStream waits before each message that it sends.
type clientStream struct {
	grpc.ClientStream
	gate       *gate
	fullMethod string
	cancel     context.CancelFunc // ends the stream, and releases its context after its end
	many       bool               // the server sends more than one message
}

// SendMsg sends a message when there are permits for it.
func (s *clientStream) SendMsg(message any) error {
	if r := s.gate.pass(s.Context(), s.fullMethod, message, s.gate.wait); r != nil {
		s.cancel() // an error of SendMsg promises that the stream is over
		return r.err()
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
	line, ok := g.limiter.(limit.KeyedAcquirer)
	switch {
	case g.shadow:
		return g.allow(ctx, key, permits)
	case ok && (!g.bounded || g.maxWait > 0):
		return g.acquire(ctx, line, key, permits)
	}
	ask := func() (limit.Result, error) { return g.allow(ctx, key, permits) }
	return admission.Poll(ctx, g.latest(ctx), ask)
}

// latest returns the time until which a call may wait, zero for no bound.
func (g *gate) latest(ctx context.Context) time.Time {
	latest, _ := ctx.Deadline()
	if end := time.Now().Add(g.maxWait); g.bounded && (latest.IsZero() || end.Before(latest)) {
		return end
	}
	return latest
}

// acquire waits in the line of a limiter. A call that waits for maxWait is refused.
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

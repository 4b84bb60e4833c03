package grpclimit

import (
	"context"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/internal/admission"
	"github.com/redisson-go/rratelimiter/limit"
)

// UnaryClientInterceptor returns an interceptor that waits for the permits of a call before it sends
// the call: 1, unless WithCost says otherwise. A call is charged once, even if the retry policy of
// gRPC sends it several times. It panics if limiter or key is nil, or limiter cannot reserve what
// WithSettle or WithActual asks for.
//
// If the limiter of a key is a limit.Acquirer, such as that of a Keyed or a RateLimiter of limit.Shared, the
// call waits in its line. Otherwise the interceptor calls Allow again after RetryAfter, and refuses a
// call at once if it would wait longer than its deadline or WithMaxWait.
//
// The errors are statuses as on a server, for calls that were not sent: RESOURCE_EXHAUSTED, with
// RetryInfo if the limiter reports the time, for a call that may not wait long enough; CANCELED or
// DEADLINE_EXCEEDED for a call that ended while it waited; UNAVAILABLE if the limiter failed
// (WithFailOpen). WithTimeout does not bound Acquire: give its Client a budget.
func UnaryClientInterceptor[L limit.Limiter](
	limiter limit.Keyed[L], key Key, opts ...ClientOption,
) grpc.UnaryClientInterceptor {
	g := newClientGate(limiter, key, opts)
	return func(
		ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoker grpc.UnaryInvoker, callOpts ...grpc.CallOption,
	) error {
		invoke := func() error { return invoker(ctx, method, req, reply, cc, callOpts...) }
		return g.newBooking(ctx, method).call(req, reply, invoke)
	}
}

// StreamClientInterceptor is UnaryClientInterceptor for streams. A stream waits before it begins, or,
// with WithPerMessage, before each message that it sends. Then SendMsg returns the refusal and cancels
// the stream.
func StreamClientInterceptor[L limit.Limiter](
	limiter limit.Keyed[L], key Key, opts ...ClientOption,
) grpc.StreamClientInterceptor {
	g := newClientGate(limiter, key, opts)
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
		method string, streamer grpc.Streamer, callOpts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		open := func(ctx context.Context) (grpc.ClientStream, error) {
			return streamer(ctx, desc, cc, method, callOpts...)
		}
		return g.newBooking(ctx, method).openStream(desc, open)
	}
}

func newClientGate[L limit.Limiter](limiter limit.Keyed[L], key Key, opts []ClientOption) *gate {
	g := newGate(limiter, key)
	for _, opt := range opts {
		opt.forClient(g)
	}
	g.checkReserver()
	return g
}

// call sends a call when there are permits for it.
func (b *booking) call(req, reply any, invoke func() error) error {
	if r := b.pass(req, b.wait); r != nil {
		return r.err()
	}
	b.outcome.Request, b.outcome.Reply = req, reply
	err := invoke()
	b.end(false, err)
	return err
}

// openStream opens a stream, with WithPerMessage at once.
func (b *booking) openStream(
	desc *grpc.StreamDesc, open func(context.Context) (grpc.ClientStream, error),
) (grpc.ClientStream, error) {
	if !b.gate.perMessage {
		if r := b.pass(nil, b.wait); r != nil {
			return nil, r.err()
		}
	}
	ctx := b.ctx
	if b.gate.settles {
		ctx = b.Alone(ctx, place)
	}
	if !b.gate.perMessage && (b.gate.actual == nil || b.Reservation == nil) {
		return open(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx)
	if err != nil {
		cancel()
		b.end(false, err)
		return nil, err
	}
	abandoned := func() { b.end(false, status.FromContextError(ctx.Err()).Err()) }
	stop := context.AfterFunc(ctx, abandoned)
	over := func(err error) {
		stop()
		cancel()
		b.end(false, err)
	}
	return &clientStream{stream, b, over, desc.ServerStreams}, nil
}

// A clientStream counts the messages of a stream, or, with WithPerMessage, waits before each that it sends.
type clientStream struct {
	grpc.ClientStream
	booking *booking
	over    func(error) // settles the stream, and releases its context
	many    bool        // the server sends more than one message
}

// SendMsg sends a message when there are permits for it.
func (s *clientStream) SendMsg(message any) error {
	if b := s.booking; b.gate.perMessage {
		if r := b.gate.pass(s.Context(), b.outcome.FullMethod, message, b.wait); r != nil {
			s.over(r.err()) // an error of SendMsg promises that the stream is over
			return r.err()
		}
	}
	err := s.ClientStream.SendMsg(message)
	if err == nil {
		s.booking.requested(message)
	}
	return err
}

// RecvMsg receives a message.
func (s *clientStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	switch {
	case err == nil:
		s.booking.replied(message)
		if !s.many { // the stream is over
			s.over(nil)
		}
	case err == io.EOF:
		s.over(nil)
	default:
		s.over(err)
	}
	return err
}

// wait waits for the permits: in the line of the limiter, or until RetryAfter.
func (b *booking) wait(ctx context.Context, key string, permits int64) (limit.Result, error) {
	g := b.gate
	switch {
	case g.shadow || g.bounded && g.maxWait <= 0:
		return b.allow(ctx, key, permits)
	case g.reserves():
		timeout := time.Duration(math.MaxInt64)
		if g.bounded {
			timeout = g.maxWait
		}
		var err error
		b.key, b.Estimate = key, permits
		b.Reservation, err = g.limits.Reserve(ctx, key, permits, timeout)
		return limit.Result{Allowed: b.Reservation != nil}, err
	case g.limits.Acquire != nil:
		return g.acquire(ctx, key, permits)
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
func (g *gate) acquire(ctx context.Context, key string, permits int64) (limit.Result, error) {
	within := ctx
	if g.bounded {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, g.maxWait)
		defer cancel()
	}
	err := g.limits.Acquire(within, key, permits)
	if err != nil && err == within.Err() && ctx.Err() == nil {
		return limit.Result{}, nil
	}
	return limit.Result{Allowed: err == nil}, err
}

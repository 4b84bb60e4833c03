package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/limit"
)

// UnaryServerInterceptor returns an interceptor that refuses a call if limiter does not allow its
// permits: 1, unless WithCost says otherwise. It does not wait for permits. limiter has a limit for
// each key; limit.Shared makes one from a single limit.
//
// Put it in front of interceptors that send a header: a client retries only if the refusal is all
// that it gets (Trailers-Only). It panics if limiter or key is nil, or limiter cannot reserve what
// WithSettle or WithActual asks for.
func UnaryServerInterceptor[L limit.Limiter](
	limiter limit.Keyed[L], key Key, opts ...ServerOption,
) grpc.UnaryServerInterceptor {
	g := newServerGate(limiter, key, opts)
	return func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		b := g.newBooking(ctx, info.FullMethod)
		return b.serveUnary(req, handler, b.allow)
	}
}

// StreamServerInterceptor is UnaryServerInterceptor for streams. A stream is charged when it begins,
// or, with WithPerMessage, for each message that it receives. From a refused message on, RecvMsg
// returns the refusal, which becomes the status of the stream whatever the handler returns.
func StreamServerInterceptor[L limit.Limiter](
	limiter limit.Keyed[L], key Key, opts ...ServerOption,
) grpc.StreamServerInterceptor {
	g := newServerGate(limiter, key, opts)
	return func(
		srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
		b := g.newBooking(stream.Context(), info.FullMethod)
		return b.serveStream(srv, stream, handler, b.allow)
	}
}

func newServerGate[L limit.Limiter](limiter limit.Keyed[L], key Key, opts []ServerOption) *gate {
	g := newGate(limiter, key)
	for _, opt := range opts {
		opt.forServer(g)
	}
	g.checkReserver()
	return g
}

// serveUnary serves a call, unless it is refused.
func (b *booking) serveUnary(req any, handler grpc.UnaryHandler, ask ask) (reply any, err error) {
	if r := b.pass(req, ask); r != nil {
		return nil, r.to(b.ctx)
	}
	panicked := true
	defer func() {
		b.outcome.Request, b.outcome.Reply = req, reply
		b.end(panicked, err)
	}()
	reply, err = handler(b.in(), req)
	panicked = false
	return reply, err
}

// serveStream serves a stream, unless it is refused.
func (b *booking) serveStream(
	srv any, stream grpc.ServerStream, handler grpc.StreamHandler, ask ask,
) (err error) {
	if !b.gate.perMessage {
		if r := b.pass(nil, ask); r != nil {
			stream.SetTrailer(r.trailer())
			return r.err()
		}
		if !b.gate.reserves() {
			return handler(srv, stream)
		}
	}
	panicked := true
	defer func() { b.end(panicked, err) }()
	s := &serverStream{ServerStream: stream, booking: b, ctx: b.in(), ask: ask}
	err = handler(srv, s)
	panicked = false
	if r := s.refused.Load(); r != nil {
		return r.err()
	}
	return err
}

// A serverStream counts the messages of a stream, or, with WithPerMessage, charges for each that it receives.
type serverStream struct {
	grpc.ServerStream
	booking *booking
	ctx     context.Context
	ask     ask
	refused atomic.Pointer[refusal] // set once
}

// Context returns the context of the stream, for Settle.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message, and returns the refusal if there are no permits for it.
func (s *serverStream) RecvMsg(message any) error {
	if r := s.refused.Load(); r != nil {
		return r.err()
	}
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	s.booking.requested(message)
	if !s.booking.gate.perMessage {
		return nil
	}
	if r := s.booking.pass(message, s.ask); r != nil {
		s.SetTrailer(r.trailer())
		s.refused.Store(r)
		return r.err()
	}
	return nil
}

// SendMsg sends a message.
func (s *serverStream) SendMsg(message any) error {
	err := s.ServerStream.SendMsg(message)
	if err == nil {
		s.booking.replied(message)
	}
	return err
}

// A Limiter is the Limiter of go-grpc-middleware (interceptors/ratelimit of its v2), for servers that
// use those interceptors already. The interceptors of this package tell the peer more:
// go-grpc-middleware turns each error into its own RESOURCE_EXHAUSTED, with the text of the error but
// without its details. So the peer learns when to retry only from grpc-retry-pushback-ms, and a failed
// limiter looks like a refusal.
type Limiter struct{ gate *gate }

// NewLimiter returns a Limiter on limiter, with the options of a server; WithPerMessage, WithSettle and
// WithActual have no effect, and the message of WithCost is nil. The method passed to key
// is that of the call on a server, and empty on a client. It panics if limiter or key is nil.
func NewLimiter[L limit.Limiter](limiter limit.Keyed[L], key Key, opts ...ServerOption) *Limiter {
	return &Limiter{newServerGate(limiter, key, opts)}
}

// Limit returns nil if the call of ctx goes on. Otherwise the error is a status with the details of
// UnaryServerInterceptor, for status.FromError, and a peer may see its text.
func (l *Limiter) Limit(ctx context.Context) error {
	fullMethod, _ := grpc.Method(ctx)
	if r := l.gate.pass(ctx, fullMethod, nil, l.gate.allow); r != nil {
		return limitError{status.Convert(r.to(ctx))}
	}
	return nil
}

// A limitError is a status whose text is its message only, because go-grpc-middleware shows the text
// to the peer.
type limitError struct{ status *status.Status }

func (e limitError) Error() string { return e.status.Message() }

// GRPCStatus returns the status, for status.FromError.
func (e limitError) GRPCStatus() *status.Status { return e.status }

package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/redisson-go/rratelimiter/limit"
)

// UnaryServerInterceptor returns an interceptor that refuses a call if limiter does not allow its
// permits: 1, unless WithCost says otherwise. It does not wait for permits. limiter has a limit for
// each key; limit.Shared makes one from a single limit.
//
// Put it in front of interceptors that send a header: a client retries only if the refusal is all
// that it gets (Trailers-Only). It panics if limiter or key is nil, or limiter cannot reserve what
// WithSettle or WithActual asks for.
func UnaryServerInterceptor(
	limiter limit.Keyed, key Key, opts ...ServerOption,
) grpc.UnaryServerInterceptor {
	g := newServerGate(limiter, key, opts)
	return func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		if g.reserves() {
			b := g.newBooking(ctx, info.FullMethod)
			return b.serveUnary(req, handler, b.allow)
		}
		if r := g.pass(ctx, info.FullMethod, req, g.allow); r != nil {
			return nil, r.to(ctx)
		}
		return handler(ctx, req)
	}
}

// StreamServerInterceptor is UnaryServerInterceptor for streams. A stream is charged when it begins,
// or, with WithPerMessage, for each message that it receives. From a refused message on, RecvMsg
// returns the refusal, which becomes the status of the stream whatever the handler returns.
func StreamServerInterceptor(
	limiter limit.Keyed, key Key, opts ...ServerOption,
) grpc.StreamServerInterceptor {
	g := newServerGate(limiter, key, opts)
	return func(
		srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
		if g.reserves() {
			b := g.newBooking(stream.Context(), info.FullMethod)
			return b.serveStream(srv, stream, handler, b.allow)
		}
		return g.serve(srv, stream, info.FullMethod, handler, g.allow)
	}
}

// serve calls the handler of a stream, unless it is refused.
func (g *gate) serve(
	srv any, stream grpc.ServerStream, fullMethod string, handler grpc.StreamHandler, ask ask,
) error {
	if g.perMessage {
		metered := &serverStream{ServerStream: stream, gate: g, ask: ask, fullMethod: fullMethod}
		err := handler(srv, metered)
		if r := metered.refused.Load(); r != nil {
			return r.err()
		}
		return err
	}
	if r := g.pass(stream.Context(), fullMethod, nil, ask); r != nil {
		stream.SetTrailer(r.trailer())
		return r.err()
	}
	return handler(srv, stream)
}

func newServerGate(limiter limit.Keyed, key Key, opts []ServerOption) *gate {
	g := newGate(limiter, key)
	for _, opt := range opts {
		opt.forServer(g)
	}
	g.findReserver()
	return g
}

// A serverStream charges for each message that it receives.
type serverStream struct {
	grpc.ServerStream
	gate       *gate
	ask        ask
	fullMethod string
	refused    atomic.Pointer[refusal] // set once
}

// RecvMsg receives a message, and returns the refusal if there are no permits for it.
func (s *serverStream) RecvMsg(message any) error {
	if r := s.refused.Load(); r != nil {
		return r.err()
	}
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if r := s.gate.pass(s.Context(), s.fullMethod, message, s.ask); r != nil {
		s.SetTrailer(r.trailer())
		s.refused.Store(r)
		return r.err()
	}
	return nil
}

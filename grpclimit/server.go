package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/redisson-go/rratelimiter/limit"
)

// UnaryServerInterceptor returns an interceptor that refuses calls of which limiter does
// not allow the permits: 1 each, unless WithCost says otherwise. It does not wait for
// permits. limiter has a limit for each key; limit.Shared makes one of a single limit.
//
// Put it in front of interceptors that send a header: a client retries only where the
// refusal is all that it gets (Trailers-Only). It panics if limiter or key is nil.
func UnaryServerInterceptor(
	limiter limit.Keyed, key Key, opts ...ServerOption,
) grpc.UnaryServerInterceptor {
	g := newServerGate(limiter, key, opts)
	return func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		if a := g.pass(ctx, info.FullMethod, req, g.allow); a != nil {
			if trailer := a.trailer(); trailer != nil {
				_ = grpc.SetTrailer(ctx, trailer) // fails only where there is no call to answer
			}
			return nil, a.err()
		}
		return handler(ctx, req)
	}
}

// StreamServerInterceptor is UnaryServerInterceptor for streams. A stream is charged when
// it begins, with WithPerMessage for each message that is received instead. Then a refusal
// is the error of RecvMsg, also of each later one, and the status of the stream whatever
// the handler returns.
func StreamServerInterceptor(
	limiter limit.Keyed, key Key, opts ...ServerOption,
) grpc.StreamServerInterceptor {
	g := newServerGate(limiter, key, opts)
	return func(
		srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
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
		if a := metered.refusal.Load(); a != nil {
			return a.err()
		}
		return err
	}
	if a := g.pass(stream.Context(), fullMethod, nil, ask); a != nil {
		stream.SetTrailer(a.trailer())
		return a.err()
	}
	return handler(srv, stream)
}

func newServerGate(limiter limit.Keyed, key Key, opts []ServerOption) *gate {
	g := newGate(limiter, key)
	for _, opt := range opts {
		opt.forServer(g)
	}
	return g
}

// A serverStream charges for each message that it receives.
type serverStream struct {
	grpc.ServerStream
	gate       *gate
	ask        ask
	fullMethod string
	refusal    atomic.Pointer[answer] // once set, it stays
}

// RecvMsg receives a message, and returns the refusal if there are no permits for it.
func (s *serverStream) RecvMsg(message any) error {
	if a := s.refusal.Load(); a != nil {
		return a.err()
	}
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if a := s.gate.pass(s.Context(), s.fullMethod, message, s.ask); a != nil {
		s.SetTrailer(a.trailer())
		s.refusal.Store(a)
		return a.err()
	}
	return nil
}

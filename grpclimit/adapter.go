package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Limiter is the Limiter of go-grpc-middleware (interceptors/ratelimit of its v2), for
// servers that have those interceptors already. Others have more from the interceptors
// of this package: go-grpc-middleware makes every error a RESOURCE_EXHAUSTED of its own,
// with the text of the error and without its details. So a peer is told when to retry by
// grpc-retry-pushback-ms alone, and a limiter that has failed looks like a refusal.
type Limiter struct{ gate *gate }

// NewLimiter returns a Limiter on limiter. Options are as of a server; WithPerMessage
// changes nothing, and the message of WithCost is nil. The method that key is told is
// that of the call on a server, and empty on a client. It panics if limiter or key is nil.
func NewLimiter(limiter limit.Keyed, key Key, opts ...ServerOption) *Limiter {
	return &Limiter{newServerGate(limiter, key, opts)}
}

// Limit returns nil if the call of ctx goes on. Otherwise the error has a text that may
// be shown to a peer, and is a status with the details of UnaryServerInterceptor, for
// status.FromError.
func (l *Limiter) Limit(ctx context.Context) error {
	fullMethod, _ := grpc.Method(ctx)
	a := l.gate.pass(ctx, fullMethod, nil, l.gate.allow)
	if a == nil {
		return nil
	}
	if trailer := a.trailer(); trailer != nil {
		_ = grpc.SetTrailer(ctx, trailer) // fails on a client, which has no trailer to set
	}
	return limitError{a.status}
}

// A limitError is a status whose text is its message alone, because go-grpc-middleware
// shows the text to the peer.
type limitError struct{ status *status.Status }

func (e limitError) Error() string { return e.status.Message() }

// GRPCStatus is for status.FromError.
func (e limitError) GRPCStatus() *status.Status { return e.status }

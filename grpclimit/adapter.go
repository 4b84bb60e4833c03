package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Limiter is the Limiter of go-grpc-middleware (interceptors/ratelimit of its v2), for servers that
// use those interceptors already. The interceptors of this package tell the peer more:
// go-grpc-middleware turns each error into its own RESOURCE_EXHAUSTED, with the text of the error but
// without its details. So the peer learns when to retry only from grpc-retry-pushback-ms, and a failed
// limiter looks like a refusal.
type Limiter struct{ gate *gate }

// NewLimiter returns a Limiter on limiter, with the options of a server; WithPerMessage, WithSettle and
// WithActual have no effect, and the message of WithCost is nil. The method passed to key
// is that of the call on a server, and empty on a client. It panics if limiter or key is nil.
func NewLimiter(limiter limit.Keyed, key Key, opts ...ServerOption) *Limiter {
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

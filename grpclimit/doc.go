// Package grpclimit limits gRPC calls: interceptors for servers and clients, on any
// limiter of this module, and an adapter to go-grpc-middleware.
//
// A server refuses calls ([UnaryServerInterceptor], [StreamServerInterceptor]). The peer gets
// RESOURCE_EXHAUSTED with google.rpc.RetryInfo and google.rpc.QuotaFailure, and the
// trailer grpc-retry-pushback-ms, which sets the wait of a gRPC client with a retry policy (gRFC A6).
// A client waits its turn before it sends a call ([UnaryClientInterceptor],
// [StreamClientInterceptor]).
//
// The status depends on the result of the limiter:
//
//	refused                      RESOURCE_EXHAUSTED, RetryInfo, QuotaFailure, pushback
//	limit.ErrPermitsExceedRate   RESOURCE_EXHAUSTED, QuotaFailure, pushback -1: do not retry
//	limit.ErrInvalidArgument     INVALID_ARGUMENT: the limiter does not take the key
//	the call has ended           CANCELED or DEADLINE_EXCEEDED
//	any other error              UNAVAILABLE, or the call goes on (WithFailOpen)
//
// The messages are fixed. They contain no text of an error and no name or key of a limiter;
// [WithHook] gives both to the server.
//
// There is no tap handle (google.golang.org/grpc/tap). It runs in the goroutine that
// reads the connection, so a call of Redis in it would stall all calls of the connection.
// The price: a refused call has started a goroutine, and its first message has been read.
package grpclimit

// Package grpclimit limits gRPC calls: interceptors for servers and clients, on any
// limiter of this module, and an adapter to go-grpc-middleware.
//
// A server refuses ([UnaryServerInterceptor], [StreamServerInterceptor]). The peer gets
// RESOURCE_EXHAUSTED with google.rpc.RetryInfo and google.rpc.QuotaFailure, and the
// trailer grpc-retry-pushback-ms, by which the retry policy of a gRPC client waits as
// long as it is told (gRFC A6). A client waits its turn before it sends
// ([UnaryClientInterceptor], [StreamClientInterceptor]).
//
// What the peer sees, by what the limiter came to:
//
//	refused                RESOURCE_EXHAUSTED, RetryInfo, QuotaFailure, pushback
//	ErrPermitsExceedRate   RESOURCE_EXHAUSTED, QuotaFailure, pushback -1: do not retry
//	ErrInvalidArgument     INVALID_ARGUMENT: the key cannot be used
//	the call has ended     CANCELED or DEADLINE_EXCEEDED
//	any other error        UNAVAILABLE, or the call is let through (WithFailOpen)
//
// The texts are fixed. They hold no text of an error and no name or key of a limiter;
// [WithHook] has both for the server itself.
//
// There is no tap handle (google.golang.org/grpc/tap). It runs in the goroutine that
// reads the connection, so asking Redis in it would stall every call of the connection.
// The price: a refused call has started a goroutine and its first message has been read.
package grpclimit

package main

import (
	"context"
	"net"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
)

// The bounds of what strangers can make the service keep in memory. docs/envoy.md has them.
const (
	// mostStreams is the number of calls of a connection of gRPC, and mostMetadata and mostMessage the bytes
	// of one: several times what Envoy accepts as the header of a visitor. Envoy lets a visitor pass whose
	// call is too large.
	mostStreams, mostMetadata, mostMessage = 100, 16 << 10, 1 << 20
	// buffer is that of a connection of gRPC, in bytes. The default is 32 KiB.
	buffer = 4 << 10
	// beginning is how long a client may take to begin with gRPC.
	beginning = 3 * time.Second
	// fewCalls is how many calls of gRPC have the time reading to arrive. Further ones have crowded.
	fewCalls, crowded = 64, 100 * time.Millisecond
	// mostWatches is the number of streams that watch the health.
	mostWatches = 1000
	// mostHeader is the bytes of a header of HTTP. nginx passes on at most 32 KiB.
	mostHeader = 32 << 10
	// mostScrapes is the number of scrapes at once: with the most metrics, each takes 14 MiB.
	mostScrapes = 3
	// mostScrapers and mostDebuggers are the connections of their ports.
	mostScrapers, mostDebuggers = 100, 10
	// writing is how long a response may take, and profiling one of the debug port, where profiles take 30 s.
	writing, profiling = 15 * time.Second, time.Minute
)

// listen listens on an address. Further connections than a number wait until earlier ones end.
func listen(address string, connections int) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(listener, connections), nil
}

// timerKey is the key of the timer of a call in its context.
type timerKey struct{}

// arrives bounds the time in which a call of gRPC arrives as a whole. Otherwise the calls of a stranger would
// stay for ever, each with its goroutine and a part of its message.
func (v *server) arrives(ctx context.Context, _ *tap.Info) (context.Context, error) {
	limit := reading
	if v.calls.Add(1) > fewCalls {
		limit = crowded
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(limit, cancel)
	context.AfterFunc(ctx, func() { // the call has ended
		timer.Stop()
		v.calls.Add(-1)
	})
	return context.WithValue(ctx, timerKey{}, timer), nil
}

// arrived is the grpc.UnaryServerInterceptor for calls that have arrived.
func arrived(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	stay(ctx)
	return handle(ctx, in)
}

// stay stops the timer of a call.
func stay(ctx context.Context) {
	if timer, ok := ctx.Value(timerKey{}).(*time.Timer); ok {
		timer.Stop()
	}
}

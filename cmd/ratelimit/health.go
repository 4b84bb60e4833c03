package main

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A healthServer is grpc.health.v1 whose streams of Watch end when the service does. Clients keep them open,
// and GracefulStop would wait for them.
type healthServer struct {
	*health.Server
	watches    atomic.Int64
	ended      context.Context
	endWatches context.CancelFunc
}

func newHealthServer() *healthServer {
	h := &healthServer{Server: health.NewServer()}
	h.ended, h.endWatches = context.WithCancel(context.Background())
	return h
}

// Watch implements healthpb.HealthServer.
func (h *healthServer) Watch(in *healthpb.HealthCheckRequest, stream watchStream) error {
	stay(stream.Context())
	defer h.watches.Add(-1)
	if h.watches.Add(1) > mostWatches {
		return status.Errorf(codes.ResourceExhausted, "more than %d watches", mostWatches)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(h.ended, cancel)
	defer stop()
	err := h.Server.Watch(in, endingStream{stream, ctx})
	if h.ended.Err() != nil {
		return status.Error(codes.Unavailable, "the service ends")
	}
	return err
}

type watchStream = grpc.ServerStreamingServer[healthpb.HealthCheckResponse]

// An endingStream is a stream with another context.
type endingStream struct {
	watchStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s endingStream) Context() context.Context { return s.ctx }

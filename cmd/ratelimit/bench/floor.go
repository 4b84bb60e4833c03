package main

import (
	"context"
	"net"
	"runtime/debug"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// floor is the name of a service that replies like the others and decides nothing.
const floor = "floor"

type floorService struct {
	pb.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit implements pb.RateLimitServiceServer.
func (floorService) ShouldRateLimit(
	context.Context, *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{
		OverallCode: pb.RateLimitResponse_OK,
		Statuses: []*pb.RateLimitResponse_DescriptorStatus{{
			Code: pb.RateLimitResponse_OK,
			CurrentLimit: &pb.RateLimitResponse_RateLimit{
				RequestsPerUnit: 4_000_000_000, Unit: pb.RateLimitResponse_RateLimit_HOUR,
			},
			LimitRemaining: 3_999_999_999, DurationUntilReset: durationpb.New(time.Hour),
		}},
	}, nil
}

// serveFloor serves the floor, with the options of ratelimit.
func serveFloor(address string) error {
	debug.SetGCPercent(200)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	const workers = 512
	server := grpc.NewServer(grpc.NumStreamWorkers(workers), grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window))
	pb.RegisterRateLimitServiceServer(server, floorService{})
	return server.Serve(listener)
}

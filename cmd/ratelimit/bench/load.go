package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A load is calls of a number of streams over a few connections, as Envoy makes them.
type load struct {
	streams int
	values  int // of the descriptor; 1 is a hot one
}

// String returns the name of the load in the table.
func (l load) String() string {
	if l.values == 1 {
		return fmt.Sprintf("one hot descriptor, %d streams", l.streams)
	}
	return fmt.Sprintf("%d descriptors, %d streams", l.values, l.streams)
}

// connections is how many connections all streams share: one for each worker thread of a small Envoy.
const connections = 4

// window is that of HTTP/2, in bytes.
const window = 65535

// A batch is what a load measured in one turn.
type batch struct {
	perSecond float64
	p50, p99  time.Duration
}

// connect opens the connections to a service.
func connect(address string) (all []pb.RateLimitServiceClient, closeAll func(), err error) {
	var conns []*grpc.ClientConn
	closeAll = func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	for range connections {
		// Fixed windows, as Envoy has them: grpc-go measures the bandwidth otherwise, by pings.
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, conn)
		all = append(all, pb.NewRateLimitServiceClient(conn))
	}
	return all, closeAll, nil
}

// run makes calls for a time.
func (l load) run(ctx context.Context, clients []pb.RateLimitServiceClient, d time.Duration) (batch, error) {
	var running sync.WaitGroup
	var failed atomic.Pointer[error]
	took := make([][]time.Duration, l.streams)
	start := time.Now()
	for i := range l.streams {
		running.Go(func() {
			client := clients[i%len(clients)]
			for time.Since(start) < d && failed.Load() == nil {
				in := ask(rand.IntN(l.values))
				before := time.Now()
				if _, err := client.ShouldRateLimit(ctx, in); err != nil {
					failed.Store(&err)
					return
				}
				took[i] = append(took[i], time.Since(before))
			}
		})
	}
	running.Wait()
	if err := failed.Load(); err != nil {
		return batch{}, *err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return batch{
		perSecond: float64(len(all)) / time.Since(start).Seconds(),
		p50:       all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}

func ask(value int) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "bench", Descriptors: []*descriptor.RateLimitDescriptor{{
		Entries: []*descriptor.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("user-%d", value)}},
	}}}
}

package grpclimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// newServer returns a server that allows each user 100 calls a minute.
func newServer(client *rratelimiter.Client) *grpc.Server {
	users := client.Keyed("user", 100, time.Minute)
	user := grpclimit.ByMetadata("x-user") // set by your authentication
	policy := grpclimit.WithPolicy("user") // the peer sees this name
	return grpc.NewServer(
		grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(users, user, policy)),
		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(users, user, policy)),
	)
}

// retryPolicy lets a client retry after the time that the server sends. Without it no gRPC client
// retries RESOURCE_EXHAUSTED, whatever the trailer says.
const retryPolicy = `{"methodConfig": [{
	"name": [{"service": "orders.Orders"}],
	"retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "1s", "maxBackoff": "10s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]
	}
}]}`

func newRetryingClient(target string) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, grpc.WithDefaultServiceConfig(retryPolicy),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// newClient returns a client that waits its turn, up to 5 s, before it sends.
func newClient(target string, partner *rratelimiter.RateLimiter) (*grpc.ClientConn, error) {
	turn := grpclimit.UnaryClientInterceptor(limit.Shared(partner), grpclimit.ByMethod,
		grpclimit.WithMaxWait(5*time.Second))
	return grpc.NewClient(target, grpc.WithUnaryInterceptor(turn),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// retryAfter returns how long a refused call should wait, for clients that retry themselves.
func retryAfter(err error) (wait time.Duration, ok bool) {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

func ExampleUnaryServerInterceptor() {
	// A Keyed shares the limits over Redis; this one refuses all users.
	users := limit.Shared(limit.Func(func(context.Context, int64) (limit.Result, error) {
		return limit.Result{Limit: 1, Interval: time.Minute, RetryAfter: 42 * time.Second}, nil
	}))
	interceptor := grpclimit.UnaryServerInterceptor(users, grpclimit.ByMetadata("x-user"),
		grpclimit.WithPolicy("user"))
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-user", "alice"))
	_, err := interceptor(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/orders.Orders/List"}, nil)
	wait, _ := retryAfter(err)
	fmt.Println(status.Code(err), wait)
	// Output: ResourceExhausted 42s
}

func ExampleUnaryClientInterceptor() {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	newServer(client).Stop()
	partner := client.RateLimiter("partner")
	for _, dial := range []func() (*grpc.ClientConn, error){
		func() (*grpc.ClientConn, error) { return newClient("passthrough:///partner", partner) },
		func() (*grpc.ClientConn, error) { return newRetryingClient("passthrough:///orders") },
	} {
		conn, err := dial()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(conn.Target(), conn.Close())
	}
	// Output:
	// passthrough:///partner <nil>
	// passthrough:///orders <nil>
}

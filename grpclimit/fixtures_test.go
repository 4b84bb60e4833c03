package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

const (
	unaryMethod = "/grpc.testing.TestService/EmptyCall"
	bidiMethod  = "/grpc.testing.TestService/FullDuplexCall"
)

// An attempt is what a fakeLimiter was asked, and when.
type attempt struct {
	key string
	n   int64
	at  time.Time
}

// A fakeLimiter says what it was told to, in order; the last word again and again.
type fakeLimiter struct {
	mu     sync.Mutex
	says   []verdict
	asked  []attempt
	silent bool // says nothing until the context ends
}

type verdict struct {
	result limit.Result
	err    error
}

var granted = verdict{result: limit.Result{Allowed: true, Limit: 10, Remaining: 9, Interval: time.Second}}

// refusedFor returns a refusal that says when to come again.
func refusedFor(d time.Duration) verdict {
	return verdict{result: limit.Result{
		Name: "user:alice", Limit: 10, Interval: time.Minute, RetryAfter: d, ResetAfter: time.Minute,
	}}
}

func saying(says ...verdict) *fakeLimiter { return &fakeLimiter{says: says} }

func (f *fakeLimiter) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	f.mu.Lock()
	f.asked = append(f.asked, attempt{key, n, time.Now()})
	says := f.says[min(len(f.asked), len(f.says))-1]
	f.mu.Unlock()
	if f.silent {
		<-ctx.Done()
		return limit.Result{}, ctx.Err()
	}
	return says.result, says.err
}

// attempts returns what the limiter was asked so far.
func (f *fakeLimiter) attempts() []attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fakeLimiter) wantAsked(t *testing.T, times int) {
	t.Helper()
	if asked := f.attempts(); len(asked) != times {
		t.Fatalf("asked %d times, want %d: %v", len(asked), times, asked)
	}
}

// A service counts the calls that reach it, and echoes streams.
type service struct {
	testpb.UnimplementedTestServiceServer
	mu       sync.Mutex
	calls    int
	received int
	swallow  error // what a stream's handler returns when it cannot receive, nil for the error
}

func (s *service) counted() (calls, received int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.received
}

func (s *service) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return &testpb.Empty{}, nil
}

func (s *service) FullDuplexCall(
	stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse],
) error {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	for {
		_, err := stream.Recv()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && s.swallow != nil:
			return s.swallow
		case err != nil:
			return err
		}
		s.mu.Lock()
		s.received++
		s.mu.Unlock()
		if err := stream.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// serve starts a server on a connection in memory, and returns a client of it.
func serve(
	t *testing.T, s *service, server []grpc.ServerOption, client ...grpc.DialOption,
) testpb.TestServiceClient {
	t.Helper()
	const buffer = 1 << 16
	listener := bufconn.Listen(buffer)
	srv := grpc.NewServer(server...)
	testpb.RegisterTestServiceServer(srv, s)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		// A server that no client came to may be stopped before it serves.
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	conn := redistest.Must(grpc.NewClient("passthrough:///memory", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
	}, client...)...))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

// limited returns the options of a server with both interceptors.
func limited(limiter limit.Keyed, key grpclimit.Key, opts ...grpclimit.ServerOption) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(limiter, key, opts...)),
		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(limiter, key, opts...)),
	}
}

// waiting returns the options of a client with both interceptors.
func waiting(limiter limit.Keyed, opts ...grpclimit.ClientOption) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(limiter, grpclimit.ByMethod, opts...)),
		grpc.WithStreamInterceptor(grpclimit.StreamClientInterceptor(limiter, grpclimit.ByMethod, opts...)),
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("%v: code %v, want %v", err, got, want)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An endless stream has always one message more.
type endless struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endless) Context() context.Context { return s.ctx }
func (*endless) RecvMsg(any) error          { return nil }
func (*endless) SetTrailer(metadata.MD)     {}

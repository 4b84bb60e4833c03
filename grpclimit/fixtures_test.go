package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	unaryMethod = "/grpc.testing.TestService/EmptyCall"
	bidiMethod  = "/grpc.testing.TestService/FullDuplexCall"
)

// errSecret is an error that no peer may see.
var errSecret = errors.New("dial tcp 10.1.2.3:6379: user:alice")

// An attempt is one call of a fakeLimiter.
type attempt struct {
	key string
	n   int64
	at  time.Time
}

// A fakeLimiter returns its outcomes in order, and the last one again and again.
type fakeLimiter struct {
	mu       sync.Mutex
	outcomes []outcome
	asked    []attempt // guarded by mu
}

type outcome struct {
	result limit.Result
	err    error
}

var granted = outcome{result: limit.Result{Allowed: true, Limit: 10, Remaining: 9, Interval: time.Second}}

// refusedFor returns a refusal with a RetryAfter.
func refusedFor(d time.Duration) outcome {
	return outcome{result: limit.Result{
		Name: "user:alice", Limit: 10, Interval: time.Minute, RetryAfter: d, ResetAfter: time.Minute,
	}}
}

func saying(outcomes ...outcome) *fakeLimiter { return &fakeLimiter{outcomes: outcomes} }

func (f *fakeLimiter) For(key string) limit.Limiter {
	return limit.Func(func(_ context.Context, n int64) (limit.Result, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, attempt{key, n, time.Now()})
		o := f.outcomes[min(len(f.asked), len(f.outcomes))-1]
		return o.result, o.err
	})
}

// silent is a limiter that returns when its context ends.
var silent = limit.Shared(limit.Func(func(ctx context.Context, _ int64) (limit.Result, error) {
	<-ctx.Done()
	return limit.Result{}, ctx.Err()
}))

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
	swallow  error // the handler of a stream returns it instead of an error of Recv, if it is not nil

	during func(ctx context.Context) // called while a call runs, if it is not nil
}

func (s *service) counted() (calls, received int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.received
}

func (s *service) EmptyCall(ctx context.Context, _ *testpb.Empty) (*testpb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.during != nil {
		s.during(ctx)
	}
	return &testpb.Empty{}, nil
}

func (s *service) FullDuplexCall(
	stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse],
) error {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	if s.during != nil {
		s.during(stream.Context())
	}
	for {
		_, err := stream.Recv()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && s.swallow != nil:
			if _, again := stream.Recv(); status.Code(again) != status.Code(err) {
				return again
			}
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
		// Without a call the server may be stopped before it serves.
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
func limited[L limit.Limiter](
	limiter limit.Keyed[L], key grpclimit.Key, opts ...grpclimit.ServerOption,
) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(limiter, key, opts...)),
		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(limiter, key, opts...)),
	}
}

// waiting returns the options of a client with both interceptors.
func waiting[L limit.Limiter](limiter limit.Keyed[L], opts ...grpclimit.ClientOption) []grpc.DialOption {
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

func emptyCall(ctx context.Context, c testpb.TestServiceClient, opts ...grpc.CallOption) error {
	_, err := c.EmptyCall(ctx, &testpb.Empty{}, opts...)
	return err
}

// echo sends n messages on one stream, each after the response to the one before, and returns the
// number of responses.
func echo(ctx context.Context, client testpb.TestServiceClient, n int) (responses int, err error) {
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return 0, err
	}
	for range n {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil && err != io.EOF {
			return responses, err
		}
		if _, err := stream.Recv(); err != nil {
			return responses, err
		}
		responses++
	}
	if err := stream.CloseSend(); err != nil {
		return responses, err
	}
	if _, err := stream.Recv(); err != io.EOF {
		return responses, err
	}
	return responses, nil
}

// intercepted calls handler through an interceptor.
func intercepted(
	ctx context.Context, interceptor grpc.UnaryServerInterceptor, handler func(context.Context),
) error {
	_, err := interceptor(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod},
		func(ctx context.Context, _ any) (any, error) { handler(ctx); return nil, nil })
	return err
}

func details(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

// wantNoSecret checks that the peer sees no name, key or error of a limiter.
func wantNoSecret(t *testing.T, err error, trailer metadata.MD) {
	t.Helper()
	text := fmt.Sprint(status.Convert(err).Proto(), trailer)
	if strings.Contains(text, "alice") || strings.Contains(text, "secret") {
		t.Errorf("the peer sees %s", text)
	}
}

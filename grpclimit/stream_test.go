package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/redisson-go/rratelimiter/grpclimit"
)

// echo sends n messages on one stream, each after the answer to the one before, and
// returns how many were answered.
func echo(t *testing.T, client testpb.TestServiceClient, n int) (answered int, err error) {
	t.Helper()
	stream, err := client.FullDuplexCall(t.Context())
	if err != nil {
		return 0, err
	}
	for range n {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil && err != io.EOF {
			return answered, err
		}
		if _, err := stream.Recv(); err != nil {
			return answered, err
		}
		answered++
	}
	noError(t, stream.CloseSend())
	if _, err := stream.Recv(); err != io.EOF {
		return answered, err
	}
	return answered, nil
}

// A stream is charged once, however many messages it has.
func TestStreamIsChargedOnce(t *testing.T) {
	f := saying(granted, refusedFor(time.Second))
	s := &service{}
	client := serve(t, s, limited(f, grpclimit.ByMethod))
	answered, err := echo(t, client, 5)
	noError(t, err)
	if answered != 5 {
		t.Errorf("%d messages answered", answered)
	}
	f.wantAsked(t, 1)
	if f.attempts()[0].key != bidiMethod {
		t.Errorf("asked for %q", f.attempts()[0].key)
	}
	_, err = echo(t, client, 5)
	wantCode(t, err, codes.ResourceExhausted)
	if retry, quota := details(err); retry == nil || quota == nil {
		t.Errorf("details: %v, %v", retry, quota)
	}
	if calls, _ := s.counted(); calls != 1 {
		t.Errorf("the handler was called %d times", calls)
	}
}

// With WithPerMessage each message is charged, and the refusal ends the stream with its
// own status, also where the handler makes something else of the error, or nothing.
func TestServerStreamPerMessage(t *testing.T) {
	for name, swallow := range map[string]error{
		"returned": nil, "wrapped": errors.New("cannot receive"), "taken for the end": io.EOF,
	} {
		t.Run(name, func(t *testing.T) {
			f := saying(granted, granted, refusedFor(time.Second))
			s := &service{swallow: swallow}
			client := serve(t, s, limited(f, grpclimit.ByMethod, grpclimit.WithPerMessage(),
				grpclimit.WithCost(func(_ context.Context, _ string, message any) int64 {
					if _, ok := message.(*testpb.StreamingOutputCallRequest); !ok {
						t.Errorf("the cost of %T", message)
					}
					return 2
				})))
			answered, err := echo(t, client, 5)
			wantCode(t, err, codes.ResourceExhausted)
			if retry, _ := details(err); retry.GetRetryDelay().AsDuration() != time.Second {
				t.Errorf("RetryInfo: %v", retry)
			}
			if _, received := s.counted(); answered != 2 || received != 2 {
				t.Errorf("%d messages answered, %d received, want 2", answered, received)
			}
			f.wantAsked(t, 3)
			if f.attempts()[0].n != 2 {
				t.Errorf("asked for %d", f.attempts()[0].n)
			}
		})
	}
}

// A handler that goes on receiving after a refusal gets the refusal again, unasked.
func TestRefusalStays(t *testing.T) {
	f := saying(refusedFor(time.Second), granted)
	interceptor := grpclimit.StreamServerInterceptor(f, grpclimit.ByMethod, grpclimit.WithPerMessage())
	err := interceptor(nil, &endless{ctx: t.Context()}, &grpc.StreamServerInfo{},
		func(_ any, stream grpc.ServerStream) error {
			first, second := stream.RecvMsg(nil), stream.RecvMsg(nil)
			wantCode(t, first, codes.ResourceExhausted)
			wantCode(t, second, codes.ResourceExhausted)
			return nil
		})
	wantCode(t, err, codes.ResourceExhausted)
	f.wantAsked(t, 1)
}

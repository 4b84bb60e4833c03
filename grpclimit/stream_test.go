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
	"google.golang.org/grpc/metadata"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A stream is charged once, however many messages it has.
func TestStreamIsChargedOnce(t *testing.T) {
	f := saying(granted, refusedFor(time.Second))
	s := &service{}
	client := serve(t, s, limited(f, grpclimit.ByMethod))
	responses, err := echo(t.Context(), client, 5)
	redistest.NoError(t, err)
	if responses != 5 {
		t.Errorf("%d responses", responses)
	}
	f.wantAsked(t, 1)
	if f.attempts()[0].key != bidiMethod {
		t.Errorf("asked for %q", f.attempts()[0].key)
	}
	_, err = echo(t.Context(), client, 5)
	wantCode(t, err, codes.ResourceExhausted)
	if retry, quota := details(err); retry == nil || quota == nil {
		t.Errorf("details: %v, %v", retry, quota)
	}
	if calls, _ := s.counted(); calls != 1 {
		t.Errorf("the handler was called %d times", calls)
	}
}

// With WithPerMessage each message is charged. The refusal is the status of the stream, even if the
// handler returns another error or none.
func TestServerStreamPerMessage(t *testing.T) {
	for name, swallow := range map[string]error{
		"returned": nil, "replaced": errors.New("cannot receive"), "ignored": io.EOF,
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
			responses, err := echo(t.Context(), client, 5)
			wantCode(t, err, codes.ResourceExhausted)
			if retry, _ := details(err); retry.GetRetryDelay().AsDuration() != time.Second {
				t.Errorf("RetryInfo: %v", retry)
			}
			if _, received := s.counted(); responses != 2 || received != 2 {
				t.Errorf("%d responses, %d messages received, want 2", responses, received)
			}
			f.wantAsked(t, 3)
			if f.attempts()[0].n != 2 {
				t.Errorf("asked for %d", f.attempts()[0].n)
			}
		})
	}
}

// A handler that still receives after a refusal gets the same refusal again.
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

// In an endless stream there is always another message.
type endless struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endless) Context() context.Context { return s.ctx }
func (*endless) RecvMsg(any) error          { return nil }
func (*endless) SetTrailer(metadata.MD)     {}

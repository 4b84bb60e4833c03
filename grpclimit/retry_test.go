package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// retries is a service config whose own backoff is far from what the limiters here say.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "100s", "maxBackoff": "100s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`

// gaps returns the times between attempts.
func gaps(asked []attempt) (all []time.Duration) {
	for i := 1; i < len(asked); i++ {
		all = append(all, asked[i].at.Sub(asked[i-1].at))
	}
	return all
}

// A client of gRPC with a retry policy waits exactly as long as the limiter says, in unary
// calls and streams. That it retries proves that the response is Trailers-Only: otherwise
// the pushback is not read, and the stream cannot be retried.
func TestRetryPolicyWaitsAsTold(t *testing.T) {
	for name, call := range map[string]func(testpb.TestServiceClient) error{
		"unary": func(c testpb.TestServiceClient) error {
			_, err := c.EmptyCall(context.Background(), &testpb.Empty{})
			return err
		},
		"stream": echoOnce,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := saying(refusedFor(3*time.Second), refusedFor(1500*time.Microsecond), granted)
				s := &service{}
				client := serve(t, s, limited(f, grpclimit.ByMethod), grpc.WithDefaultServiceConfig(retries))
				noError(t, call(client))
				got := gaps(f.attempts())
				if len(got) != 2 || got[0] != 3*time.Second || got[1] != 2*time.Millisecond {
					t.Errorf("waited %v, want 3s and 2ms", got)
				}
				if calls, _ := s.counted(); calls != 1 {
					t.Errorf("the handler was called %d times", calls)
				}
			})
		})
	}
}

// With WithPerMessage the refusal of the first message is a reason to retry, too.
func TestRetryPolicyWaitsPerMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := saying(refusedFor(3*time.Second), granted)
		client := serve(t, &service{}, limited(f, grpclimit.ByMethod, grpclimit.WithPerMessage()),
			grpc.WithDefaultServiceConfig(retries))
		noError(t, echoOnce(client))
		if got := gaps(f.attempts()); len(got) != 1 || got[0] != 3*time.Second {
			t.Errorf("waited %v, want 3s", got)
		}
	})
}

// echoOnce sends one message on a stream, and receives one.
func echoOnce(c testpb.TestServiceClient) error {
	stream, err := c.FullDuplexCall(context.Background())
	if err != nil {
		return err
	}
	if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return stream.CloseSend()
}

// What no waiting would help is not sent again, and neither is what is due in a month.
func TestRetryPolicyGivesUp(t *testing.T) {
	for name, says := range map[string]verdict{
		"more permits than the limit has": {err: limit.ErrPermitsExceedRate},
		"due in a month":                  refusedFor(30 * 24 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := saying(says)
				client := serve(t, &service{}, limited(f, grpclimit.ByMethod),
					grpc.WithDefaultServiceConfig(retries))
				_, err := client.EmptyCall(context.Background(), &testpb.Empty{})
				wantCode(t, err, codes.ResourceExhausted)
				f.wantAsked(t, 1)
			})
		})
	}
}

// A limiter that does not know when permits will be there leaves the client to its own
// backoff: 100 s, and up to 20 % more or less.
func TestRetryPolicyBacksOffByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := saying(refusedFor(0), granted)
		client := serve(t, &service{}, limited(f, grpclimit.ByMethod), grpc.WithDefaultServiceConfig(retries))
		_, err := client.EmptyCall(context.Background(), &testpb.Empty{})
		noError(t, err)
		if got := gaps(f.attempts()); len(got) != 1 || got[0] < 80*time.Second || got[0] > 120*time.Second {
			t.Errorf("waited %v, want about 100s", got)
		}
	})
}

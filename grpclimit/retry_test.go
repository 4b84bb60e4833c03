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
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// retries is a service config whose own backoff differs much from the waits of the limiters here.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "100s", "maxBackoff": "100s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`

// echoOnce sends one message on a stream, and receives one.
func echoOnce(ctx context.Context, c testpb.TestServiceClient, _ ...grpc.CallOption) error {
	_, err := echo(ctx, c, 1)
	return err
}

// A client with a retry policy waits exactly for RetryAfter, in ms, rounded up. The retry proves that
// the response is Trailers-Only: otherwise the client ignores the pushback, and cannot retry a stream.
// It does not retry if the wait cannot help or is more than 24 days.
func TestRetryPolicyWaitsForRetryAfter(t *testing.T) {
	const s, day = time.Second, 24 * time.Hour
	perMessage := grpclimit.WithPerMessage()
	twice := []outcome{refusedFor(3 * s), refusedFor(1500 * time.Microsecond), granted}
	for name, test := range map[string]struct {
		call     func(context.Context, testpb.TestServiceClient, ...grpc.CallOption) error
		opts     []grpclimit.ServerOption
		outcomes []outcome
		waits    []time.Duration
		want     codes.Code
	}{
		"unary":  {emptyCall, nil, twice, []time.Duration{3 * s, 2 * time.Millisecond}, codes.OK},
		"stream": {echoOnce, nil, twice, []time.Duration{3 * s, 2 * time.Millisecond}, codes.OK},
		"per message": {echoOnce, []grpclimit.ServerOption{perMessage}, twice[1:],
			[]time.Duration{2 * time.Millisecond}, codes.OK},
		"too costly": {emptyCall, nil, []outcome{{err: limit.ErrPermitsExceedRate}}, nil,
			codes.ResourceExhausted},
		"due in a month": {emptyCall, nil, []outcome{refusedFor(30 * day)}, nil, codes.ResourceExhausted},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, s := saying(test.outcomes...), &service{}
			client := serve(t, s, limited(f, grpclimit.ByMethod, test.opts...),
				grpc.WithDefaultServiceConfig(retries))
			err := test.call(t.Context(), client)
			wantCode(t, err, test.want)
			f.wantWaits(t, test.waits...)
			if calls, _ := s.counted(); err == nil && test.opts == nil && calls != 1 {
				t.Errorf("%s: the handler was called %d times", name, calls)
			}
		})
	}
}

// Without RetryAfter the client uses its own backoff: 100 s, and up to 20 % more or less.
func TestRetryPolicyBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := saying(refusedFor(0), granted)
		client := serve(t, &service{}, limited(f, grpclimit.ByMethod), grpc.WithDefaultServiceConfig(retries))
		began := time.Now()
		redistest.NoError(t, emptyCall(t.Context(), client))
		if took := time.Since(began); took < 80*time.Second || took > 120*time.Second {
			t.Errorf("waited %v, want about 100s", took)
		}
		f.wantAsked(t, 2)
	})
}

package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A silent limiter has failed after WithTimeout, unless the call ends before that.
func TestSilentLimiter(t *testing.T) {
	timeout, open := grpclimit.WithTimeout, grpclimit.WithFailOpen()
	for _, test := range []struct {
		deadline time.Duration
		opts     []grpclimit.ServerOption
		want     codes.Code
		took     time.Duration
	}{
		{time.Hour, nil, codes.Unavailable, 100 * time.Millisecond},
		{time.Hour, []grpclimit.ServerOption{timeout(time.Second)}, codes.Unavailable, time.Second},
		{time.Second, []grpclimit.ServerOption{timeout(time.Hour), open},
			codes.DeadlineExceeded, time.Second},
		{time.Minute, []grpclimit.ServerOption{timeout(0)}, codes.DeadlineExceeded, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			began := time.Now()
			unary := grpclimit.UnaryServerInterceptor(silent, grpclimit.ByMethod, test.opts...)
			err := intercepted(ctx, unary, func(context.Context) {})
			if wantCode(t, err, test.want); time.Since(began) != test.took {
				t.Errorf("%v after %v, want %v", err, time.Since(began), test.took)
			}
		})
	}
}

// A nil limiter, key or rules are a bug of the program, and so is a limiter that cannot reserve, or
// WithPerMessage where calls reserve.
func TestBugsOfTheProgramPanic(t *testing.T) {
	settle, method := grpclimit.WithSettle(), grpclimit.ByMethod
	for name, test := range map[string]struct {
		build func()
		want  string
	}{
		"unary server":  {func() { grpclimit.UnaryServerInterceptor[limit.Limiter](nil, method) }, "is nil"},
		"stream server": {func() { grpclimit.StreamServerInterceptor(saying(granted), nil) }, "is nil"},
		"unary client":  {func() { grpclimit.UnaryClientInterceptor[limit.Limiter](nil, method) }, "is nil"},
		"stream client": {func() { grpclimit.StreamClientInterceptor(saying(granted), nil) }, "is nil"},
		"adapter":       {func() { grpclimit.NewLimiter[limit.Limiter](nil, method) }, "is nil"},
		"rules":         {func() { grpclimit.UnaryServerRules(nil, nil) }, "are nil"},
		"no reserver": {
			func() { grpclimit.UnaryServerInterceptor(saying(granted), method, settle) }, "limit.Reserver"},
		"messages": {func() {
			one := limit.Shared(&account{})
			grpclimit.StreamClientInterceptor(one, method, settle, grpclimit.WithPerMessage())
		}, "WithPerMessage"},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, test.want) {
					t.Errorf("%s: a panic of %q, want %q in it", name, text, test.want)
				}
			}()
			test.build()
		}()
	}
}

// With WithPerMessage each message is charged. The refusal is the status of the stream, even if the
// handler receives again, or returns another error or none.
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
			var waits []time.Duration
			asked := f.attempts()
			for i := 1; i < len(asked); i++ {
				waits = append(waits, asked[i].at.Sub(asked[i-1].at))
			}
			if !slices.Equal(waits, test.waits) {
				t.Errorf("%s: waited %v, want %v", name, waits, test.waits)
			}
			if calls, _ := s.counted(); err == nil && test.opts == nil && calls != 1 {
				t.Errorf("%s: the handler was called %d times", name, calls)
			}
		})
	}
}

var _ ratelimit.Limiter = (*grpclimit.Limiter)(nil)

// With go-grpc-middleware the key function gets the method, and the peer the pushback. Without a call on a
// server the error has the details.
func TestAdapter(t *testing.T) {
	f := saying(granted, refusedFor(2*time.Second), outcome{err: errSecret}, refusedFor(2*time.Second))
	limiter := grpclimit.NewLimiter(f, grpclimit.ByMethod, grpclimit.WithPolicy("reads"))
	client := serve(t, &service{}, []grpc.ServerOption{
		grpc.UnaryInterceptor(ratelimit.UnaryServerInterceptor(limiter))})
	redistest.NoError(t, emptyCall(t.Context(), client))
	if f.attempts()[0].key != unaryMethod {
		t.Errorf("asked for %q", f.attempts()[0].key)
	}
	for _, pushback := range []string{"2000", ""} {
		var trailer metadata.MD
		err := emptyCall(t.Context(), client, grpc.Trailer(&trailer))
		wantCode(t, err, codes.ResourceExhausted)
		wantNoSecret(t, err, trailer)
		if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); got != pushback {
			t.Errorf("%v with the pushback %q, want %q", err, got, pushback)
		}
	}
	err := limiter.Limit(t.Context())
	retry, quota := details(err)
	if retry == nil || len(quota.GetViolations()) != 1 || err.Error() != "rate limit exceeded" {
		t.Fatalf("without a call: %v with %v and %v", err, retry, quota)
	}
	const what = "a limit of 10 permits, which come back within 1m0s"
	if v := quota.GetViolations()[0]; v.GetSubject() != "reads" || v.GetDescription() != what {
		t.Errorf("%v, want %s", v, what)
	}
}

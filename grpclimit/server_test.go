package grpclimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A refusal contains the time to retry, the quota and its numbers, but not a name of the limiter. If
// several limits decide, each that refused is a violation.
func TestRefusal(t *testing.T) {
	one, several := refusedFor(1500*time.Microsecond+1), refusedFor(1500*time.Microsecond+1)
	several.result.Each = []limit.Result{
		{Limit: 1, Interval: time.Second},
		{Limit: 2, Interval: time.Second, Allowed: true},
		{Policy: "hour", Limit: 3, Interval: time.Hour},
	}
	for want, outcome := range map[string]outcome{
		"reads: a limit of 10 permits, which come back within 1m0s": one,
		"reads: a limit of 1 permits, which come back within 1s, " +
			"reads: a limit of 3 permits, which come back within 1h0m0s": several,
	} {
		s := &service{}
		client := serve(t, s, limited(saying(outcome), grpclimit.ByMethod, grpclimit.WithPolicy("reads")))
		var header, trailer metadata.MD
		err := emptyCall(t.Context(), client, grpc.Header(&header), grpc.Trailer(&trailer))
		wantCode(t, err, codes.ResourceExhausted)
		wantNoSecret(t, err, trailer)
		retry, quota := details(err)
		if got := retry.GetRetryDelay().AsDuration(); got != 1500*time.Microsecond+1 {
			t.Errorf("RetryInfo: %v", got)
		}
		var violations []string
		for _, v := range quota.GetViolations() {
			violations = append(violations, v.GetSubject()+": "+v.GetDescription())
		}
		if got := strings.Join(violations, ", "); got != want {
			t.Errorf("violations %q, want %q", got, want)
		}
		if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "2" {
			t.Errorf("pushback: %v, want 2: rounded up", got)
		}
		if calls, _ := s.counted(); calls != 0 || header.Len() != 0 {
			t.Errorf("the handler was called %d times, and a header was sent: %v", calls, header)
		}
	}
}

// Each error of the limiter or the Key has a status and a pushback, reaches the hook, and stays on the
// server. With WithFailOpen a call goes on if the limiter fails, and with no other error. With WithShadow
// all go on.
func TestErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("%w: %w", err, errSecret) }
	who := status.Error(codes.Unauthenticated, "who are you?")
	for name, test := range map[string]struct {
		outcome  outcome
		key      error
		want     codes.Code
		pushback string
		open     codes.Code // with WithFailOpen
	}{
		"refused": {
			refusedFor(time.Second), nil, codes.ResourceExhausted, "1000", codes.ResourceExhausted},
		"refused without a time": {refusedFor(0), nil, codes.ResourceExhausted, "", codes.ResourceExhausted},
		"failed":                 {outcome{err: errSecret}, nil, codes.Unavailable, "", codes.OK},
		"status of another": {
			outcome{err: status.Error(codes.NotFound, "secret")}, nil, codes.Unavailable, "", codes.OK},
		"too many permits": {outcome{err: wrap(limit.ErrPermitsExceedRate)}, nil,
			codes.ResourceExhausted, "-1", codes.ResourceExhausted},
		"a key it does not take": {outcome{err: wrap(limit.ErrInvalidArgument)}, nil,
			codes.InvalidArgument, "", codes.InvalidArgument},
		"misconfigured": {outcome{err: wrap(limit.ErrMisconfigured)}, nil, codes.Unavailable, "", codes.OK},
		"no key": {
			granted, wrap(limit.ErrInvalidArgument), codes.InvalidArgument, "", codes.InvalidArgument},
		"the key fails":     {granted, errSecret, codes.Unavailable, "", codes.Unavailable},
		"status of the key": {granted, who, codes.Unauthenticated, "", codes.Unauthenticated},
	} {
		for _, mode := range []struct {
			opt  grpclimit.ServerOption
			want codes.Code
		}{
			{grpclimit.WithPolicy(""), test.want}, {grpclimit.WithFailOpen(), test.open},
			{grpclimit.WithShadow(), codes.OK},
		} {
			t.Run(name, func(t *testing.T) {
				var seen []grpclimit.Decision
				hook := grpclimit.WithHook(
					func(_ context.Context, d grpclimit.Decision) { seen = append(seen, d) })
				f := saying(test.outcome)
				key := func(context.Context, string) (string, error) { return "k", test.key }
				var trailer metadata.MD
				err := emptyCall(t.Context(), serve(t, &service{}, limited(f, key, hook, mode.opt)),
					grpc.Trailer(&trailer))
				wantCode(t, err, mode.want)
				wantNoSecret(t, err, trailer)
				got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ",")
				if got != test.pushback && err != nil || got != "" && err == nil {
					t.Errorf("pushback %q, want %q", got, test.pushback)
				}
				if len(f.attempts()) > 0 != (test.key == nil) {
					t.Errorf("the limiter was asked %d times", len(f.attempts()))
				}
				told := cmp.Or(test.key, test.outcome.err)
				if len(seen) != 1 || !errors.Is(seen[0].Err, told) || seen[0].Passed != (err == nil) ||
					seen[0].Result.Allowed || seen[0].Permits != 1 || seen[0].FullMethod != unaryMethod {
					t.Errorf("the hook received %+v", seen)
				}
			})
		}
	}
}

// Allow gets the key and the cost of the call. A call that costs 0 goes on without it.
func TestKeyAndCost(t *testing.T) {
	f := saying(granted, refusedFor(time.Second))
	key := func(_ context.Context, fullMethod string) (string, error) { return "m:" + fullMethod, nil }
	cost := int64(7)
	client := serve(t, &service{}, limited(f, key, grpclimit.WithCost(
		func(_ context.Context, fullMethod string, message any) int64 {
			if _, ok := message.(*testpb.Empty); !ok || fullMethod != unaryMethod {
				t.Errorf("the cost of %q, %T", fullMethod, message)
			}
			return cost
		})))
	redistest.NoError(t, emptyCall(t.Context(), client))
	if got := f.attempts()[0]; got.key != "m:"+unaryMethod || got.n != 7 {
		t.Errorf("asked for %q, %d", got.key, got.n)
	}
	cost = 0
	redistest.NoError(t, emptyCall(t.Context(), client))
	f.wantAsked(t, 1)
}

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
		{time.Hour, []grpclimit.ServerOption{timeout(time.Second), open}, codes.OK, time.Second},
		{time.Second, []grpclimit.ServerOption{timeout(time.Hour), open},
			codes.DeadlineExceeded, time.Second},
		{time.Minute, []grpclimit.ServerOption{timeout(0)}, codes.DeadlineExceeded, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
			defer cancel()
			began := time.Now()
			unary := grpclimit.UnaryServerInterceptor(silent, grpclimit.ByMethod, test.opts...)
			err := intercepted(ctx, unary)
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
		"unary server":  {func() { grpclimit.UnaryServerInterceptor(nil, method) }, "is nil"},
		"stream server": {func() { grpclimit.StreamServerInterceptor(saying(granted), nil) }, "is nil"},
		"unary client":  {func() { grpclimit.UnaryClientInterceptor(nil, method) }, "is nil"},
		"stream client": {func() { grpclimit.StreamClientInterceptor(saying(granted), nil) }, "is nil"},
		"adapter":       {func() { grpclimit.NewLimiter(nil, method) }, "is nil"},
		"rules":         {func() { grpclimit.UnaryServerRules(nil, nil) }, "are nil"},
		"no reserver": {
			func() { grpclimit.UnaryServerInterceptor(saying(granted), method, settle) }, "KeyedReserver"},
		"messages": {func() {
			grpclimit.StreamClientInterceptor(&account{}, method, settle, grpclimit.WithPerMessage())
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
	limiter := grpclimit.NewLimiter(f, grpclimit.ByMethod)
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
	if retry, quota := details(err); retry == nil || quota == nil || err.Error() != "rate limit exceeded" {
		t.Errorf("without a call: %v with %v and %v", err, retry, quota)
	}
}

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// Each error of the limiter has a status and a pushback, reaches the hook, and stays on the server.
func TestErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("%w: %w", err, errSecret) }
	tooMany, badKey := wrap(limit.ErrPermitsExceedRate), wrap(limit.ErrInvalidArgument)
	open, shadow := grpclimit.WithFailOpen(), grpclimit.WithShadow()
	for name, test := range map[string]struct {
		err      error
		opt      grpclimit.ServerOption
		want     codes.Code
		pushback string
	}{
		"failed":                 {errSecret, nil, codes.Unavailable, ""},
		"status of another":      {status.Error(codes.NotFound, "secret"), nil, codes.Unavailable, ""},
		"failed, open":           {errSecret, open, codes.OK, ""},
		"too many permits":       {tooMany, nil, codes.ResourceExhausted, "-1"},
		"too many permits, open": {tooMany, open, codes.ResourceExhausted, "-1"},
		"bad key":                {badKey, nil, codes.InvalidArgument, ""},
		"bad key, open":          {badKey, open, codes.InvalidArgument, ""},
		"bad key, shadow":        {badKey, shadow, codes.OK, ""},
		"misconfigured":          {wrap(limit.ErrMisconfigured), nil, codes.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []grpclimit.Decision
			opts := []grpclimit.ServerOption{grpclimit.WithHook(
				func(_ context.Context, d grpclimit.Decision) { seen = append(seen, d) })}
			if test.opt != nil {
				opts = append(opts, test.opt)
			}
			limiter := saying(outcome{err: test.err})
			client := serve(t, &service{}, limited(limiter, grpclimit.ByMethod, opts...))
			var trailer metadata.MD
			err := emptyCall(t.Context(), client, grpc.Trailer(&trailer))
			wantCode(t, err, test.want)
			wantNoSecret(t, err, trailer)
			if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); got != test.pushback {
				t.Errorf("pushback %q, want %q", got, test.pushback)
			}
			if retry, _ := details(err); retry != nil {
				t.Errorf("RetryInfo: %v", retry)
			}
			passed := test.want == codes.OK
			if len(seen) != 1 || !errors.Is(seen[0].Err, test.err) || seen[0].Passed != passed {
				t.Errorf("the hook received %+v", seen)
			}
		})
	}
}

// An error of a Key refuses the call without asking the limiter, also with WithFailOpen. A status is
// returned unchanged.
func TestErrorsOfAKey(t *testing.T) {
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{status.Error(codes.Unauthenticated, "who are you?"), codes.Unauthenticated},
		{fmt.Errorf("%w: none", limit.ErrInvalidArgument), codes.InvalidArgument},
		{errSecret, codes.Unavailable},
	} {
		key := func(context.Context, string) (string, error) { return "", test.err }
		for _, opts := range [][]grpclimit.ServerOption{nil, {grpclimit.WithFailOpen()}} {
			f := saying(granted)
			err := emptyCall(t.Context(), serve(t, &service{}, limited(f, key, opts...)))
			wantCode(t, err, test.want)
			wantNoSecret(t, err, nil)
			f.wantAsked(t, 0)
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

// In shadow mode all calls go on, and the hook receives the refusal.
func TestShadow(t *testing.T) {
	var seen []grpclimit.Decision
	client := serve(t, &service{}, limited(saying(refusedFor(time.Second)), grpclimit.ByMethod,
		grpclimit.WithShadow(),
		grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) { seen = append(seen, d) })))
	var trailer metadata.MD
	redistest.NoError(t, emptyCall(t.Context(), client, grpc.Trailer(&trailer)))
	if trailer.Len() != 0 {
		t.Errorf("trailer: %v", trailer)
	}
	if len(seen) != 1 || seen[0].Result.Allowed || !seen[0].Passed || seen[0].Key != unaryMethod ||
		seen[0].Permits != 1 || seen[0].FullMethod != unaryMethod {
		t.Errorf("the hook received %+v", seen)
	}
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

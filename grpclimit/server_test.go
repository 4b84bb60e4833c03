package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// secret is the text of an error that no peer may see.
var errSecret = errors.New("dial tcp 10.1.2.3:6379: user:alice")

// details returns the details of a status.
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

// A refusal tells when to come again and which quota it was, and in words how much that
// is. Nothing tells the name of the limiter.
func TestRefusal(t *testing.T) {
	f := saying(refusedFor(1500*time.Microsecond + 1))
	s := &service{}
	client := serve(t, s, limited(f, grpclimit.ByMethod, grpclimit.WithPolicy("reads")))
	var header, trailer metadata.MD
	_, err := client.EmptyCall(t.Context(), &testpb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer))
	wantCode(t, err, codes.ResourceExhausted)
	retry, quota := details(err)
	if got := retry.GetRetryDelay().AsDuration(); got != 1500*time.Microsecond+1 {
		t.Errorf("RetryInfo: %v", got)
	}
	if len(quota.GetViolations()) != 1 {
		t.Fatalf("QuotaFailure: %v", quota)
	}
	v := quota.GetViolations()[0]
	const says = "a limit of 10 permits, which come back within 1m0s"
	if v.GetSubject() != "reads" || v.GetDescription() != says {
		t.Errorf("Violation: %q, %q", v.GetSubject(), v.GetDescription())
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "2" {
		t.Errorf("pushback: %v, want 2: rounded up", got)
	}
	if header.Len() != 0 {
		t.Errorf("a header was sent: %v", header)
	}
	if calls, _ := s.counted(); calls != 0 {
		t.Error("the handler was called")
	}
	if text := fmt.Sprint(status.Convert(err).Proto(), trailer); strings.Contains(text, "alice") {
		t.Errorf("the peer sees %s", text)
	}
}

// Where several limits decide, each that refused is a violation.
func TestRefusalOfSeveral(t *testing.T) {
	r := refusedFor(time.Second)
	r.result.Each = []limit.Result{
		{Limit: 1, Interval: time.Second},
		{Limit: 2, Interval: time.Second, Allowed: true},
		{Limit: 3, Interval: time.Hour},
	}
	client := serve(t, &service{}, limited(saying(r), grpclimit.ByMethod))
	_, err := client.EmptyCall(t.Context(), &testpb.Empty{})
	_, quota := details(err)
	var got []string
	for _, v := range quota.GetViolations() {
		got = append(got, v.GetDescription())
	}
	const want = "[a limit of 1 permits, which come back within 1s " +
		"a limit of 3 permits, which come back within 1h0m0s]"
	if fmt.Sprint(got) != want {
		t.Errorf("violations: %q", got)
	}
}

// What a limiter fails with is a status of its own, and its text stays here.
func TestErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("%w: %w", err, errSecret) }
	for _, test := range []struct {
		name     string
		err      error
		opts     []grpclimit.ServerOption
		want     codes.Code
		pushback string
	}{
		{name: "failed", err: errSecret, want: codes.Unavailable},
		{
			name: "its status is not ours", err: status.Error(codes.NotFound, "secret"),
			want: codes.Unavailable,
		},
		{
			name: "failed, open", err: errSecret,
			opts: []grpclimit.ServerOption{grpclimit.WithFailOpen()}, want: codes.OK,
		},
		{
			name: "too many permits", err: wrap(limit.ErrPermitsExceedRate),
			want: codes.ResourceExhausted, pushback: "-1",
		},
		{
			name: "too many permits, open", err: wrap(limit.ErrPermitsExceedRate),
			opts: []grpclimit.ServerOption{grpclimit.WithFailOpen()},
			want: codes.ResourceExhausted, pushback: "-1",
		},
		{name: "bad key", err: wrap(limit.ErrInvalidArgument), want: codes.InvalidArgument},
		{name: "bad limiter", err: wrap(limit.ErrMisconfigured), want: codes.Unavailable},
		{
			name: "bad key, open", err: wrap(limit.ErrInvalidArgument),
			opts: []grpclimit.ServerOption{grpclimit.WithFailOpen()}, want: codes.InvalidArgument,
		},
		{
			name: "bad key, shadow", err: wrap(limit.ErrInvalidArgument),
			opts: []grpclimit.ServerOption{grpclimit.WithShadow()}, want: codes.OK,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var told []grpclimit.Decision
			opts := append(test.opts, grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) {
				told = append(told, d)
			}))
			f := saying(verdict{err: test.err})
			client := serve(t, &service{}, limited(f, grpclimit.ByMethod, opts...))
			var trailer metadata.MD
			_, err := client.EmptyCall(t.Context(), &testpb.Empty{}, grpc.Trailer(&trailer))
			wantCode(t, err, test.want)
			if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); got != test.pushback {
				t.Errorf("pushback %q, want %q", got, test.pushback)
			}
			if retry, _ := details(err); retry != nil {
				t.Errorf("RetryInfo: %v", retry)
			}
			if text := fmt.Sprint(status.Convert(err).Proto()); strings.Contains(text, "alice") ||
				strings.Contains(text, "secret") {
				t.Errorf("the peer sees %s", text)
			}
			passed := test.want == codes.OK
			if len(told) != 1 || !errors.Is(told[0].Err, test.err) || told[0].Passed != passed {
				t.Errorf("the hook was told %+v", told)
			}
		})
	}
}

// A Key's error refuses the call: a status as it is, and without asking the limiter.
func TestErrorsOfAKey(t *testing.T) {
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{status.Error(codes.Unauthenticated, "who are you?"), codes.Unauthenticated},
		{fmt.Errorf("%w: none", limit.ErrInvalidArgument), codes.InvalidArgument},
		{errSecret, codes.Unavailable},
	} {
		f := saying(granted)
		client := serve(t, &service{}, limited(f, func(context.Context, string) (string, error) {
			return "", test.err
		}))
		_, err := client.EmptyCall(t.Context(), &testpb.Empty{})
		wantCode(t, err, test.want)
		f.wantAsked(t, 0)
		if strings.Contains(err.Error(), "alice") {
			t.Errorf("the peer sees %v", err)
		}
	}
}

// The limiter is asked for the key and the cost of the call; a free call passes unasked.
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
	_, err := client.EmptyCall(t.Context(), &testpb.Empty{})
	noError(t, err)
	if got := f.attempts()[0]; got.key != "m:"+unaryMethod || got.n != 7 {
		t.Errorf("asked for %q, %d", got.key, got.n)
	}
	cost = 0
	_, err = client.EmptyCall(t.Context(), &testpb.Empty{})
	noError(t, err)
	f.wantAsked(t, 1)
}

// In shadow mode everything passes, and the hook is told what would have been.
func TestShadow(t *testing.T) {
	var told []grpclimit.Decision
	s := &service{}
	client := serve(t, s, limited(saying(refusedFor(time.Second)), grpclimit.ByMethod, grpclimit.WithShadow(),
		grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) { told = append(told, d) })))
	var trailer metadata.MD
	_, err := client.EmptyCall(t.Context(), &testpb.Empty{}, grpc.Trailer(&trailer))
	noError(t, err)
	if trailer.Len() != 0 {
		t.Errorf("trailer: %v", trailer)
	}
	if len(told) != 1 || told[0].Result.Allowed || !told[0].Passed || told[0].Key != unaryMethod ||
		told[0].Permits != 1 || told[0].FullMethod != unaryMethod {
		t.Errorf("the hook was told %+v", told)
	}
}

// A limiter that says nothing has failed after the timeout, and not for a caller that
// leaves before: that one has its own end, also where calls are let through.
func TestSilentLimiter(t *testing.T) {
	ask := func(
		t *testing.T, timeout, deadline time.Duration, opts ...grpclimit.ServerOption,
	) (time.Duration, error) {
		f := saying(granted)
		f.silent = true
		unary := grpclimit.UnaryServerInterceptor(f, grpclimit.ByMethod,
			append(opts, grpclimit.WithTimeout(timeout))...)
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		began := time.Now()
		_, err := unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod},
			func(context.Context, any) (any, error) { return nil, nil })
		return time.Since(began), err
	}
	synctest.Test(t, func(t *testing.T) {
		took, err := ask(t, time.Second, time.Hour)
		if wantCode(t, err, codes.Unavailable); took != time.Second {
			t.Errorf("refused after %v, want 1s", took)
		}
		took, err = ask(t, time.Second, time.Hour, grpclimit.WithFailOpen())
		if wantCode(t, err, codes.OK); took != time.Second {
			t.Errorf("let through after %v, want 1s", took)
		}
		took, err = ask(t, time.Hour, time.Second, grpclimit.WithFailOpen())
		if wantCode(t, err, codes.DeadlineExceeded); took != time.Second {
			t.Errorf("ended after %v, want 1s", took)
		}
		took, err = ask(t, 0, time.Minute)
		if wantCode(t, err, codes.DeadlineExceeded); took != time.Minute {
			t.Errorf("without a timeout ended after %v, want 1m", took)
		}
	})
}

// The default timeout is what its documentation says.
func TestDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := saying(granted)
		f.silent = true
		began := time.Now()
		_, err := grpclimit.UnaryServerInterceptor(f, grpclimit.ByMethod)(t.Context(), nil,
			&grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
		if wantCode(t, err, codes.Unavailable); time.Since(began) != 100*time.Millisecond {
			t.Errorf("refused after %v", time.Since(began))
		}
	})
}

// An interceptor without a limiter or a key is a fault of the program.
func TestNilPanics(t *testing.T) {
	for name, build := range map[string]func(){
		"unary server":  func() { grpclimit.UnaryServerInterceptor(nil, grpclimit.ByMethod) },
		"stream server": func() { grpclimit.StreamServerInterceptor(saying(granted), nil) },
		"unary client":  func() { grpclimit.UnaryClientInterceptor(nil, grpclimit.ByMethod) },
		"stream client": func() { grpclimit.StreamClientInterceptor(saying(granted), nil) },
		"adapter":       func() { grpclimit.NewLimiter(nil, grpclimit.ByMethod) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			build()
		})
	}
}

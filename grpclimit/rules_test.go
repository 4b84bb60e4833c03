package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

const serviceRules = `
rules:
  - name: empty
    match: {route: /grpc.testing.TestService/EmptyCall, user: true}
    by: user
    limits: [{name: hour, rate: 2/1h}, {name: day, rate: 5/24h, algorithm: fixed-window}]
  - {name: service, match: {route: /grpc.testing.TestService/}, by: route, limits: [{rate: 3/1h}]}
  - {name: tenant, match: {headers: {X-Tenant: true}}, by: header X-Tenant, limits: [{rate: 1/1h}]}
`

// ruled returns the options of a server with the interceptors of rules.
func ruled(
	t *testing.T, text string, user grpclimit.Key, opts ...grpclimit.ServerOption,
) []grpc.ServerOption {
	t.Helper()
	set, err := rules.Parse([]byte(text))
	noError(t, err)
	r, err := rules.New(rules.InMemory(), set)
	noError(t, err)
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(grpclimit.UnaryServerRules(r, user, opts...)),
		grpc.StreamInterceptor(grpclimit.StreamServerRules(r, user, opts...)),
	}
}

// userOf is the user of a call, who the metadata says.
func userOf(ctx context.Context, _ string) (string, error) {
	switch user := metadata.ValueFromIncomingContext(ctx, "user"); {
	case len(user) == 0:
		return "", nil
	case user[0] == "unknown":
		return "", status.Error(codes.Unauthenticated, "who is that?")
	case user[0] == "broken":
		return "", errSecret
	default:
		return user[0], nil
	}
}

func as(t *testing.T, user string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "user", user)
}

func TestRulesOfAMethod(t *testing.T) {
	client := serve(t, &service{}, ruled(t, serviceRules, userOf))
	for _, user := range []string{"alice", "bob"} {
		for range 2 {
			_, err := client.EmptyCall(as(t, user), &testpb.Empty{})
			noError(t, err)
		}
		_, err := client.EmptyCall(as(t, user), &testpb.Empty{})
		wantCode(t, err, codes.ResourceExhausted)
		retry, quota := details(err)
		if retry.GetRetryDelay().AsDuration() <= 0 || len(quota.GetViolations()) != 1 ||
			quota.GetViolations()[0].GetSubject() != "empty/hour" {
			t.Errorf("%v %v, want a violation of empty/hour", retry, quota)
		}
	}
	for range 3 { // nobody falls under the rule of the service
		_, err := client.EmptyCall(t.Context(), &testpb.Empty{})
		noError(t, err)
	}
	_, err := client.EmptyCall(t.Context(), &testpb.Empty{})
	wantCode(t, err, codes.ResourceExhausted)
}

func TestErrorsOfRules(t *testing.T) {
	var told []error
	hook := grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) { told = append(told, d.Err) })
	client := serve(t, &service{}, ruled(t, serviceRules, userOf, hook))
	for user, want := range map[string]codes.Code{
		"unknown": codes.Unauthenticated, "broken": codes.Unavailable,
	} {
		_, err := client.EmptyCall(as(t, user), &testpb.Empty{})
		wantCode(t, err, want)
	}
	if err := errors.Join(told...); !errors.Is(err, errSecret) {
		t.Errorf("the hook was told %v", err)
	}
	lacking := ruled(t, "rules: [{name: a, by: user, limits: [{rate: 1/1h}]}]", nil)
	_, err := serve(t, &service{}, lacking).EmptyCall(t.Context(), &testpb.Empty{})
	wantCode(t, err, codes.InvalidArgument)
	defer func() {
		if recover() == nil {
			t.Error("nil rules do not panic")
		}
	}()
	grpclimit.UnaryServerRules(nil, nil)
}

// Who can spoil what says who he is would not be limited otherwise.
func TestFailOpenIsNotForUsersThatFail(t *testing.T) {
	client := serve(t, &service{}, ruled(t, serviceRules, userOf, grpclimit.WithFailOpen()))
	_, err := client.EmptyCall(as(t, "broken"), &testpb.Empty{})
	wantCode(t, err, codes.Unavailable)

	fails := func(context.Context, string) (string, error) { return "", errSecret }
	f := saying(verdict{})
	client = serve(t, &service{}, limited(f, fails, grpclimit.WithFailOpen()))
	_, err = client.EmptyCall(t.Context(), &testpb.Empty{})
	wantCode(t, err, codes.Unavailable)
}

// A stream is charged when it begins, or for each message.
func TestRulesOfAStream(t *testing.T) {
	for _, perMessage := range []bool{false, true} {
		var opts []grpclimit.ServerOption
		if perMessage {
			opts = append(opts, grpclimit.WithPerMessage())
		}
		client := serve(t, &service{}, ruled(t, serviceRules, userOf, opts...))
		stream, err := client.FullDuplexCall(t.Context())
		noError(t, err)
		for range 3 {
			noError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
			_, err := stream.Recv()
			noError(t, err)
		}
		noError(t, stream.Send(&testpb.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		if perMessage {
			wantCode(t, err, codes.ResourceExhausted)
		} else {
			noError(t, err)
		}
	}
}

// A user who is looked up for longer than WithTimeout is no failure of the limiter: who can
// make that slow would get around the limit.
func TestUsersTakeTheirOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := rules.Parse([]byte("rules: [{name: a, by: user, limits: [{rate: 1/1h}]}]"))
		noError(t, err)
		r, err := rules.New(rules.InMemory(), set)
		noError(t, err)
		unary := grpclimit.UnaryServerRules(r, func(context.Context, string) (string, error) {
			time.Sleep(time.Minute)
			return "alice", nil
		}, grpclimit.WithFailOpen())
		for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			_, err := unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod},
				func(context.Context, any) (any, error) { return nil, nil })
			wantCode(t, err, want)
		}
	})
}

// Limits on a Redis that says nothing have failed when WithTimeout has passed.
func TestRulesOnASilentRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Addr: "192.0.2.1:6379", DialTimeout: time.Minute, DialerRetries: 1, MaxRetries: -1,
		})
		defer rdb.Close()
		client := rratelimiter.New(rdb)
		defer client.Close()
		set, err := rules.Parse([]byte("rules: [{name: a, limits: [{rate: 1/1h, algorithm: fixed-window}]}]"))
		noError(t, err)
		r, err := rules.New(rules.OnRedis(client, rdb, "a"), set)
		noError(t, err)
		began := time.Now()
		_, err = grpclimit.UnaryServerRules(r, nil, grpclimit.WithTimeout(time.Second))(t.Context(), nil,
			&grpc.UnaryServerInfo{FullMethod: unaryMethod},
			func(context.Context, any) (any, error) { return nil, nil })
		if wantCode(t, err, codes.Unavailable); time.Since(began) != time.Second {
			t.Errorf("refused after %v, want 1s", time.Since(began))
		}
		time.Sleep(time.Minute) // until the call has left the pool
	})
}

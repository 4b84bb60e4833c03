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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
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

// rulesOf returns the rules of a file, with limits in memory.
func rulesOf(t *testing.T, text string) *rules.Rules {
	t.Helper()
	return redistest.Must(rules.New(rules.InMemory(), redistest.Must(rules.Parse([]byte(text)))(t)))(t)
}

func ruled(r *rules.Rules, user grpclimit.Key, opts ...grpclimit.ServerOption) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(grpclimit.UnaryServerRules(r, user, opts...)),
		grpc.StreamInterceptor(grpclimit.StreamServerRules(r, user, opts...)),
	}
}

// userOf returns the user of a call from its metadata.
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
	client := serve(t, &service{}, ruled(rulesOf(t, serviceRules), userOf))
	for _, user := range []string{"alice", "bob"} {
		for range 2 {
			redistest.NoError(t, emptyCall(as(t, user), client))
		}
		err := emptyCall(as(t, user), client)
		wantCode(t, err, codes.ResourceExhausted)
		retry, quota := details(err)
		if retry.GetRetryDelay().AsDuration() <= 0 || len(quota.GetViolations()) != 1 ||
			quota.GetViolations()[0].GetSubject() != "empty/hour" {
			t.Errorf("%v %v, want a violation of empty/hour", retry, quota)
		}
	}
	for range 3 { // calls without a user match the rule of the service
		redistest.NoError(t, emptyCall(t.Context(), client))
	}
	wantCode(t, emptyCall(t.Context(), client), codes.ResourceExhausted)
}

// Errors of users have their statuses, also with WithFailOpen, and reach the hook.
func TestErrorsOfRules(t *testing.T) {
	var seen error
	opts := []grpclimit.ServerOption{grpclimit.WithFailOpen(),
		grpclimit.WithHook(func(_ context.Context, d grpclimit.Decision) { seen = d.Err })}
	client := serve(t, &service{}, ruled(rulesOf(t, serviceRules), userOf, opts...))
	wantCode(t, emptyCall(as(t, "unknown"), client), codes.Unauthenticated)
	wantCode(t, emptyCall(as(t, "broken"), client), codes.Unavailable)
	if !errors.Is(seen, errSecret) {
		t.Errorf("the hook received %v", seen)
	}
	byHost := ruled(rulesOf(t, "rules: [{name: a, by: header Host, limits: [{rate: 1/1h}]}]"), nil)
	host := serve(t, &service{}, byHost) // Host is :authority
	redistest.NoError(t, emptyCall(t.Context(), host))
	wantCode(t, emptyCall(t.Context(), host), codes.ResourceExhausted)
	noUser := ruled(rulesOf(t, "rules: [{name: a, by: user, limits: [{rate: 1/1h}]}]"), nil)
	wantCode(t, emptyCall(t.Context(), serve(t, &service{}, noUser)), codes.InvalidArgument)
}

// A stream is charged when it begins, or for each message.
func TestRulesOfAStream(t *testing.T) {
	for _, test := range []struct {
		opts []grpclimit.ServerOption
		want codes.Code
	}{
		{nil, codes.OK}, {[]grpclimit.ServerOption{grpclimit.WithPerMessage()}, codes.ResourceExhausted},
	} {
		client := serve(t, &service{}, ruled(rulesOf(t, serviceRules), userOf, test.opts...))
		responses, err := echo(t.Context(), client, 4)
		if wantCode(t, err, test.want); responses < 3 {
			t.Errorf("%d responses", responses)
		}
	}
}

// Limits in a silent Redis have failed after WithTimeout.
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
		set := redistest.Must(
			rules.Parse([]byte("rules: [{name: a, limits: [{rate: 1/1h, algorithm: fixed-window}]}]")))(t)
		r := redistest.Must(rules.New(rules.OnRedis(client, rdb, "a"), set))(t)
		began := time.Now()
		unary := grpclimit.UnaryServerRules(r, nil, grpclimit.WithTimeout(time.Second))
		err := intercepted(t.Context(), unary, func(context.Context) {})
		if wantCode(t, err, codes.Unavailable); time.Since(began) != time.Second {
			t.Errorf("refused after %v, want 1s", time.Since(began))
		}
		time.Sleep(time.Minute) // until the call has returned to the pool
	})
}

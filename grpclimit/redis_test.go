package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// late bounds how much later than due a wait in Redis ends: the line lets Java go first.
const late = 200 * time.Millisecond

// A server with a Keyed refuses, and the retry policy of the client repeats the call when the permit is
// back. A key that a Keyed does not take is an INVALID_ARGUMENT.
func TestServerOnAKeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		methods := c.Keyed("methods", 1, time.Minute)
		client := serve(t, &service{}, limited(methods, grpclimit.ByMethod),
			grpc.WithDefaultServiceConfig(retries))
		began := time.Now()
		redistest.NoError(t, emptyCall(t.Context(), client))
		if took := time.Since(began); took != 0 {
			t.Errorf("the first call took %v", took)
		}
		redistest.NoError(t, emptyCall(t.Context(), client))
		if took := time.Since(began); took < time.Minute || took > time.Minute+late {
			t.Errorf("the second call came through after %v, want 1m", took)
		}
		braces := serve(t, &service{}, limited(methods, func(context.Context, string) (string, error) {
			return "{}", nil
		}))
		wantCode(t, emptyCall(t.Context(), braces), codes.InvalidArgument)
	})
}

// A client waits in the line of a Keyed, or of one limiter, also for the permits that it reserves.
func TestClientOnRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		one := c.RateLimiter("partner")
		redistest.NoError(t, one.SetRate(t.Context(), rratelimiter.Overall, 1, time.Minute))
		tokens := c.Keyed("tokens", 10, time.Minute)
		for _, client := range []testpb.TestServiceClient{
			serve(t, &service{}, nil, waiting(c.Keyed("methods", 1, time.Minute))...),
			serve(t, &service{}, nil, waiting(limit.Shared(one))...),
			serve(t, &service{}, nil,
				waiting(tokens, ten, grpclimit.WithSettle(), grpclimit.WithMaxWait(time.Hour))...),
		} {
			began := time.Now()
			redistest.NoError(t, emptyCall(t.Context(), client))
			redistest.NoError(t, emptyCall(t.Context(), client))
			if took := time.Since(began); took < time.Minute || took > time.Minute+late {
				t.Errorf("two calls took %v, want 1m", took)
			}
		}
	})
}

// With a Group the peer gets the limits that refused it, without their names.
func TestServerOnAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		group := c.All(
			c.Keyed("{api}:second", 1, time.Second).RateLimiter("alice"),
			c.Keyed("{api}:hour", 100, time.Hour).RateLimiter("alice"))
		client := serve(t, &service{}, limited(limit.Shared(group), grpclimit.ByMethod))
		redistest.NoError(t, emptyCall(t.Context(), client))
		err := emptyCall(t.Context(), client)
		wantCode(t, err, codes.ResourceExhausted)
		retry, quota := details(err)
		if got := retry.GetRetryDelay().AsDuration(); got <= 0 || got > time.Second {
			t.Errorf("RetryInfo: %v", got)
		}
		v := quota.GetViolations()
		if len(v) != 1 || v[0].GetDescription() != "a limit of 1 permits, which come back within 1s" {
			t.Errorf("violations: %v", v)
		}
		wantNoSecret(t, err, nil)
	})
}

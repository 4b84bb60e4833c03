package grpclimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/grpclimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// late is how much later than due a wait over Redis may end: the line lets Java go first.
const late = 200 * time.Millisecond

// A server with a Keyed refuses, and the retry policy of the client brings the call
// through when the permit is back. A key that a Keyed does not take is the peer's fault.
func TestServerOnAKeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		methods := c.Keyed("methods", 1, time.Minute)
		client := serve(t, &service{}, limited(methods, grpclimit.ByMethod),
			grpc.WithDefaultServiceConfig(retries))
		began := time.Now()
		noError(t, emptyCall(t.Context(), client))
		if took := time.Since(began); took != 0 {
			t.Errorf("the first call took %v", took)
		}
		noError(t, emptyCall(t.Context(), client))
		if took := time.Since(began); took < time.Minute || took > time.Minute+late {
			t.Errorf("the second call came through after %v, want 1m", took)
		}
		braces := serve(t, &service{}, limited(methods, func(context.Context, string) (string, error) {
			return "{}", nil
		}))
		wantCode(t, emptyCall(t.Context(), braces), codes.InvalidArgument)
	})
}

// A client waits in the line of a Keyed, or of one limiter.
func TestClientOnRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		one := c.RateLimiter("partner")
		noError(t, one.SetRate(t.Context(), rratelimiter.Overall, 1, time.Minute))
		for _, client := range []testpb.TestServiceClient{
			serve(t, &service{}, nil, waiting(c.Keyed("methods", 1, time.Minute))...),
			serve(t, &service{}, nil, waiting(limit.Shared(one))...),
		} {
			began := time.Now()
			noError(t, emptyCall(t.Context(), client))
			noError(t, emptyCall(t.Context(), client))
			if took := time.Since(began); took < time.Minute || took > time.Minute+late {
				t.Errorf("two calls took %v, want 1m", took)
			}
		}
	})
}

// A Group is a limiter, too: the peer is told of the limits that refused it, without their
// names.
func TestServerOnAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		group := c.All(
			c.Keyed("{api}:second", 1, time.Second).RateLimiter("alice"),
			c.Keyed("{api}:hour", 100, time.Hour).RateLimiter("alice"))
		client := serve(t, &service{}, limited(limit.Shared(group), grpclimit.ByMethod))
		noError(t, emptyCall(t.Context(), client))
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
		if text := fmt.Sprint(status.Convert(err).Proto()); strings.Contains(text, "alice") {
			t.Errorf("the peer sees %s", text)
		}
	})
}

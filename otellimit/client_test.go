package otellimit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/otellimit"
)

// The calls of a Client are counted once each, a call that waited is a span, and a limiter
// without a Keyed has the policy that its name is given.
func TestObservesAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otellimit.WithPolicy(func(limiterName string) string {
			policy, _, _ := strings.Cut(limiterName, ":")
			return policy
		}))
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)), rratelimiter.WithObserver(r))
		defer c.Close()
		limiter := c.RateLimiter("user:alice")
		_, err := limiter.Allow(t.Context(), 1)
		if err == nil {
			t.Fatal("a limiter without a rate allows")
		}
		noError(t, limiter.SetRate(t.Context(), rratelimiter.Overall, 10, time.Minute))
		for _, permits := range []int64{7, 1, 3} { // near the limit with the second, refused with the third
			_, err := limiter.Allow(t.Context(), permits)
			noError(t, err)
		}
		ok, err := limiter.TryAcquire(t.Context(), 3, time.Second)
		if noError(t, err); ok {
			t.Fatal("3 permits of 2 were granted")
		}
		noError(t, limiter.Acquire(t.Context(), 3))
		values := r.measured(t)
		for name, want := range map[string]string{
			"rratelimiter.requests{policy=user,result=not_initialized}": "1",
			"rratelimiter.requests{policy=user,result=granted}":         "3",
			"rratelimiter.requests{policy=user,result=refused}":         "2",
			"rratelimiter.permits{policy=user}":                         "11",
			"rratelimiter.near_limit_requests{policy=user}":             "1",
		} {
			if values[name] != want {
				t.Errorf("%s is %q, want %s", name, values[name], want)
			}
		}
		waited := values["rratelimiter.request.time_in_queue{policy=user,result=granted}"]
		if !strings.HasPrefix(waited, "1 of 59") {
			t.Errorf("waited %q, want once and 59 s", waited)
		}
		spans := r.spans.GetSpans()
		if len(spans) != 2 || spans[1].EndTime.Sub(spans[1].StartTime) < 50*time.Second {
			t.Errorf("spans: %v", spans)
		}
	})
}

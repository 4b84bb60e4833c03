package limittest_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// A counter is a simple fixed window.
type counter struct {
	rate     int64
	interval time.Duration

	mu   sync.Mutex
	used int64
	end  time.Time
}

func (c *counter) Allow(ctx context.Context, n int64) (limit.Result, error) {
	switch {
	case ctx.Err() != nil:
		return limit.Result{}, ctx.Err()
	case n < 1:
		return limit.Result{}, fmt.Errorf("%w: n is %d", limit.ErrInvalidArgument, n)
	case n > c.rate:
		return limit.Result{}, fmt.Errorf("%w: n is %d", limit.ErrPermitsExceedRate, n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !now.Before(c.end) {
		c.used, c.end = 0, now.Add(c.interval)
	}
	r := limit.Result{Limit: c.rate, Interval: c.interval, ResetAfter: c.end.Sub(now)}
	if r.Allowed = c.used+n <= c.rate; r.Allowed {
		c.used += n
	} else {
		r.RetryAfter = r.ResetAfter
	}
	r.Remaining = c.rate - c.used
	return r, nil
}

func Example() {
	// In a test file this is func TestCounter(t *testing.T).
	testCounter := func(t *testing.T) {
		limittest.TestLimiter(t, limittest.Spec{
			New: func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
				return &counter{rate: rate, interval: interval}
			},
			Algorithm: limittest.FixedWindow,
			Synctest:  true,
		})
	}
	fmt.Println("passes:", passes(testCounter))
	// Output: passes: true
}

// passes runs a test outside of go test, and hides its output.
func passes(test func(t *testing.T)) bool {
	printed := os.Stdout
	defer func() { os.Stdout = printed }()
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		defer func() { _ = null.Close() }()
		os.Stdout = null
	}
	all := func(string, string) (bool, error) { return true, nil }
	return testing.RunTests(all, []testing.InternalTest{{Name: "TestCounter", F: test}})
}

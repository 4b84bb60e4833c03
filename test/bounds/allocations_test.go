package bounds_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// A call of a lone caller allocates little, go-redis included: 3 times for each command
// and once for its reply.
func TestALoneCallAllocatesLittle(t *testing.T) {
	c := rratelimiter.New(redistest.Start(t).Client(t))
	defer func() { NoError(t, c.Close()) }()
	const rate = 1_000_000_000 // its numbers do not fit in the small ones that Go shares
	l, keyed := c.RateLimiter(redistest.Name(t)), c.Keyed(redistest.Name(t), rate, time.Hour)
	NoError(t, l.SetRate(t.Context(), Overall, rate, time.Hour))
	ctx, user := context.Background(), 0
	users := make([]string, 100)
	for i := range users {
		users[i] = fmt.Sprint("user", i)
	}
	for name, call := range map[string]struct {
		most float64
		f    func() error
	}{
		"TryAcquire": {10, func() error { return Yes(l.TryAcquire(ctx, 1, 0)) }},
		"Allow":      {12, func() error { return ErrOf(l.Allow(ctx, 1)) }},
		"Keyed.Allow": {20, func() error {
			user++
			return ErrOf(keyed.For(users[user%len(users)]).Allow(ctx, 1))
		}},
	} {
		least := math.Inf(1) // other goroutines allocate as well, such as those of go-redis
		for range 300 {
			least = min(least, testing.AllocsPerRun(1, func() { NoError(t, call.f()) }))
		}
		if t.Logf("%s: %v allocations", name, least); least > call.most {
			t.Errorf("%s: %v allocations, want at most %v", name, least, call.most)
		}
	}
}

package waiting_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Callers that share a call get the results that the same requests get one by one,
// in their order.
func TestTogetherIsAsOneByOne(t *testing.T) {
	type ask struct {
		permits int64
		numbers bool
	}
	for seed := range uint64(60) {
		GatedBubble(t, 20, time.Second, func(c *Limiter) {
			random := rand.New(rand.NewPCG(seed, 0))
			alone := c.Other().RateLimiter
			c.Want(alone.SetRate(c.Context(), Overall, 20, time.Second))
			asks := make([]ask, 1+random.IntN(30))
			for i := range asks {
				asks[i] = ask{1 + random.Int64N(6), random.IntN(2) == 0}
				if random.IntN(10) == 0 {
					asks[i].permits = 21 + random.Int64N(2) // above the rate
				}
			}
			answer := func(l *rratelimiter.RateLimiter, a ask) string {
				if a.numbers {
					r, err := l.Allow(c.Context(), a.permits)
					return fmt.Sprint(r, err)
				}
				ok, err := l.TryAcquire(c.Context(), a.permits, 0)
				return fmt.Sprint(ok, err)
			}
			want := make([]string, len(asks))
			for i, a := range asks {
				want[i] = answer(alone, a)
			}
			value, err := c.Mini.Get("{l}:value")
			NoError(c.T, err)

			c.Want(alone.SetRate(c.Context(), Overall, 20, time.Second))
			open, got := c.Gate.Shut(), make([]string, len(asks))
			for i, a := range asks {
				go func() { got[i] = answer(c.RateLimiter, a) }()
				synctest.Wait()
			}
			open()
			synctest.Wait()
			for i, a := range asks {
				if got[i] != want[i] {
					c.Errorf("seed %d, %d of %v, %v: %s; one by one %s", seed, i, asks, a, got[i], want[i])
				}
			}
			if together, err := c.Mini.Get("{l}:value"); together != value || err != nil {
				c.Errorf("seed %d: value %s, one by one %s", seed, together, value)
			}
		})
	}
}

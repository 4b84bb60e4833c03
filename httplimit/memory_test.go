package httplimit_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// The limiter of these tests keeps the rules that all limiters keep.
func TestMemory(t *testing.T) {
	limittest.TestKeyed(t, limittest.KeyedSpec{
		Synctest: true,
		New: func(_ *testing.T, rate int64, interval time.Duration) limit.Keyed {
			return newMemory(rate, interval)
		},
	})
}

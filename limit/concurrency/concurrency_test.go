package concurrency_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestForms(t *testing.T) {
	formtest.Run(t, formtest.Suite{
		New: func(most int64, lease time.Duration) formtest.Algorithm {
			return concurrency.Limit{Most: most, Lease: lease}
		},
		Kind: limittest.SlidingLog, Worst: 1,
	})
}

func TestBounds(t *testing.T) {
	for field, l := range map[string]concurrency.Limit{
		"Most is 0":             {Lease: time.Second},
		"Most is -1":            {Most: -1, Lease: time.Second},
		"Most is 1099511627777": {Most: 1<<40 + 1, Lease: time.Second},
		"Lease is 0s":           {Most: 1},
		"Lease is 999.999µs":    {Most: 1, Lease: time.Millisecond - 1},
		"Lease is 87840h0m1s":   {Most: 1, Lease: 3660*24*time.Hour + time.Second},
	} {
		for _, err := range all(l) {
			if !errors.Is(err, limit.ErrInvalidArgument) || !strings.Contains(err.Error(), field) {
				t.Errorf("%+v: %v", l, err)
			}
		}
	}
}

// all returns the errors of all forms of a limit that is out of its bounds.
func all(l concurrency.Limit) []error {
	_, memory := l.LeasesInMemory()
	_, memoryKeyed := l.LeasesInMemoryKeyed()
	_, redis := l.LeasesOnRedis(nil, "name")
	_, redisKeyed := l.LeasesOnRedisKeyed(nil, "name")
	return []error{memory, memoryKeyed, redis, redisKeyed}
}

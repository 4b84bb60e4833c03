package rates_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// A limiter can be renamed while it is in use: over a slow line, while two callers take permits over a fast
// one until the limiter is gone.
func TestALimiterInUseIsRenamed(t *testing.T) {
	const rate = 1 << 40
	n := NewProxied(t, rate, time.Hour)
	n.Proxy.Delay(2 * time.Millisecond)
	ctx := TimeLimit(t, 20*time.Second)
	c := rratelimiter.New(n.Look)
	defer c.Close()
	old := c.RateLimiter(n.Name())
	var group sync.WaitGroup
	var granted atomic.Int64
	for range 2 {
		group.Go(func() {
			for {
				ok, err := old.TryAcquire(ctx, 1, 0)
				if ok {
					granted.Add(1)
				}
				if err != nil {
					WantErr(t, err, rratelimiter.ErrNotInitialized)
					return
				}
			}
		})
	}
	Until(t, func() bool { return granted.Load() > 100 })
	before, name := granted.Load(), redistest.Name(t)
	if err := n.Rename(ctx, name); err != nil {
		t.Error(err)
	}
	group.Wait()
	if granted.Load() == before {
		t.Error("nothing was granted while it was renamed")
	}
	if keys := n.Look.Keys(t.Context(), "*"+old.Name()+"*").Val(); len(keys) != 0 {
		t.Errorf("left under the old name: %q", keys)
	}
	if got := n.Name(); got != name {
		t.Errorf("it is called %q, want %q", got, name)
	}
	n.Has(rate - granted.Load())
	n.Keeps(rate, n.ValueKey(), n.PermitsKey())
}

package rlock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/rlock"
)

// Ten thousand holds, which were not taken at one time, are renewed in time through two connections
// although each reply comes late, and with far fewer script calls than holds.
func TestTenThousandHolds(t *testing.T) {
	const (
		locks, callers, late = 10_000, 32, 300 * time.Millisecond
		lease                = 6 * time.Second
	)
	r := viaProxy(t, func(o *redis.Options) { o.PoolSize = 2 })
	client := r.client(rlock.WithWatchdogTimeout(lease))
	ctx := t.Context() // a busy machine may take long for so many locks
	holds := make([]*rlock.Hold, locks)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < locks; i += callers {
				var err error
				if holds[i], err = client.Lock(fmt.Sprint(r.name, i)).Lock(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	before, start := r.scripts(), time.Now()
	r.proxy.Delay(late)
	time.Sleep(lease + time.Second) // the leases that are not renewed pass
	r.proxy.Delay(0)
	if locked := must(r.look.DBSize(t.Context()).Result())(t); locked < locks {
		t.Errorf("%d of %d locks are held", locked, locks)
	}
	lost := 0
	for _, h := range holds {
		if h.Err() != nil {
			lost++
		}
	}
	want(t, "lost holds", lost, 0)
	thirds := int64(time.Since(start)/(lease/3)) + 1
	if calls := r.scripts() - before; calls > thirds*locks/10 {
		t.Errorf("%d script calls in %d thirds of a lease", calls, thirds)
	}
}

package rlock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/rlock"
)

// Ten thousand holds are renewed in time through two connections, although each reply comes late.
func TestRenewalsThroughASmallPool(t *testing.T) {
	t.Parallel()
	const (
		locks, callers, late = 10_000, 32, 300 * time.Millisecond
		lease                = 6 * time.Second
	)
	r := onRoad(t, func(o *redis.Options) { o.PoolSize = 2 })
	limiters := rratelimiter.New(r.rdb)
	t.Cleanup(func() { _ = limiters.Close() })
	client := rlock.New(limiters, rlock.WithWatchdogTimeout(lease))
	ctx := within(t)
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
	if lost > 0 {
		t.Errorf("%d holds are lost", lost)
	}
}

package records_test

import (
	"sync"
	"testing"
	"time"

	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The same holds for many callers that share calls. Once a script never ended here.
func TestManyCallersGetPermitsThatAreBackAtOnce(t *testing.T) {
	for _, interval := range []int64{0, -5} {
		n := NewProxied(t, 5, time.Hour)
		n.Want(n.Look.HSet(t.Context(), n.Name(), "interval", interval).Err())
		n.Takes(5)
		release := n.Proxy.HoldNext(1, IsScript)
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				timeout := time.Duration(i%2) * time.Second
				if err := Yes(n.TryAcquire(t.Context(), int64(1+i%5), timeout)); err != nil {
					t.Error(interval, err)
				}
			})
			if i == 0 {
				Until(t, func() bool { return n.Proxy.Held() == 1 })
			}
		}
		before := n.ScriptsRun()
		release()
		group.Wait()
		if calls := n.ScriptsRun() - before; calls > 8 {
			t.Errorf("%d calls for 16 that come together", calls)
		}
		n.Has(5)
		n.Keeps(5, n.ValueKey(), n.PermitsKey())
	}
}

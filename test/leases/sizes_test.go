package leases_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A lease takes at most twice what the last one used, and a quarter more where that had permits left over.
func TestTheSizeOfALeaseFollowsUse(t *testing.T) {
	inBubble(t, 1, 100_000, func(b *bubble) {
		p, last := b.processes[0], int64(0)
		for range 5000 {
			b.take(p, 1)
			size := b.lease()
			if last > 0 && size > 2*last {
				b.Fatalf("a lease of %d after one of %d", size, last)
			}
			last = max(last, size)
		}
		if last < 500 {
			b.Errorf("the largest lease had %d permits", last)
		}
		for range 400 { // 50 permits in the time of a lease
			b.take(p, 1)
			time.Sleep(interval / 20 / 50)
		}
		if n := b.lease(); n < 25 || n > 80 {
			b.Errorf("a lease of %d permits, where 50 are used in its time", n)
		}
	})
}

// Leases cost a key of few calls nothing, and one that is called more often two calls: one asks what is left,
// and how many Clients share it, and one takes the lease.
func TestTheFirstLeaseOfAKeyTakesTwoCalls(t *testing.T) {
	inBubble(t, 1, 1000, func(b *bubble) {
		p := b.processes[0]
		users := p.client.Keyed("users", 1000, interval)
		// The first one loads the scripts.
		for i, c := range []struct{ calls, trips int64 }{{4, 0}, {3, 3}, {4, 6}} {
			before := p.trips.Load()
			for range c.calls {
				v, err := users.For(strconv.Itoa(i)).Allow(b.Context(), 1)
				if synctest.Wait(); err != nil || !v.Allowed {
					t.Fatal(v, err)
				}
			}
			if n := p.trips.Load() - before; i > 0 && n != c.trips {
				t.Errorf("%d calls took %d round trips, want %d", c.calls, n, c.trips)
			}
		}
	})
}

package charging_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here are of requests that arrive when go-redis has sent them again,
// or when their callers have gone.

// When a release arrives an interval late, its permits have come back
// already. The permits that are out then belong to other callers.
func TestAReleaseThatIsAnIntervalLateGivesNothingBack(t *testing.T) {
	const interval = 50 * time.Millisecond
	n := NewProxied(t, 10, interval)
	n.Takes(4)
	c := n.Holds(n.GivesBack(4)) // the first copy never arrives
	start := time.Now()
	Until(t, func() bool { return time.Since(start) > interval })
	n.Want(c.Overtaken())
	n.Has(6)
	n.Keeps(10, n.ValueKey(), n.PermitsKey())
}

// The first copy of a release of many records arrives when the release has gone on, or another one has been
// done. It gives nothing back.
func TestALateFirstCopyOfALargeReleaseGivesNothingBack(t *testing.T) {
	const records = 5_000
	for name, next := range map[string]func(l *Limiter){
		"alone":          func(*Limiter) {},
		"before another": func(l *Limiter) { l.Gives(1) },
	} {
		t.Run(name, func(t *testing.T) {
			n := NewProxied(t, 20_000, time.Hour)
			n.Fill(n.Now-500, 100, 10_000, 1)
			n.SetKey(n.ValueKey(), 10_000)
			c := n.Holds(n.GivesBack(records))
			n.Want(c.Overtaken())
			next(n)
			left := n.Size()
			if left > 10_000-records {
				t.Fatalf("%d records are left, and %d were given back", left, records)
			}
			c.Arrives()
			if got := n.Size(); got != left {
				t.Fatalf("the late copy has given back %d permits", left-got)
			}
		})
	}
}

// A copy arrives when its caller was refused and waits. What it takes is taken
// back, and the caller is served.
func TestALateCopyServesItsWaiter(t *testing.T) {
	n := NewProxied(t, 1, time.Hour)
	other := n.Other()
	other.Takes(1)
	c := n.Holds(func() error { return Yes(n.TryAcquire(context.Background(), 1, 5*time.Second)) })
	n.Proxy.Cut()
	c.Followed() // by the second copy, which is refused
	other.Gives(1)
	c.Pass()
	n.Want(<-c.Told)
	n.Keeps(1, n.ValueKey(), n.PermitsKey())
	n.HasRecords(1)
}

// SetRate clears the keys of the other type in a second script. When that comes
// late it leaves the type in force alone.
func TestALateClearHarmsNoCaller(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	same := NewClient(t, n.Look, rratelimiter.WithID(n.Client.ID()))
	other := n.By(same)
	n.Want(n.SetRate(t.Context(), Overall, 10, time.Hour))
	n.SetKey(n.ValueKey()+":"+n.Client.ID(), 1) // something to clear
	scripts := 0
	clears := n.HoldsNext(func(args []string) bool {
		if IsScript(args) {
			scripts++
		}
		return scripts == 2
	}, func() error { return n.SetRate(context.Background(), Overall, 10, time.Hour) })
	n.Want(other.SetRate(t.Context(), PerClient, 5, time.Hour))
	other.Takes(3)
	clears.Pass()
	n.Want(<-clears.Told)
	other.Has(2)
}

// The first copy of a merged call arrives after the reply to the second one. It
// charges nothing, or what it takes is taken back: whether all of the call was
// granted, a part, or nothing.
func TestALateFirstCopyOfAMergedCallIsNotCharged(t *testing.T) {
	const rate = 30
	for name, tc := range map[string]struct {
		before  int64 // taken by Java, and back before the late copy arrives
		permits []int64
		granted int64
	}{
		"all granted, and enough is left for all again":  {0, []int64{4, 4}, 8},
		"all granted, and enough is left for a part":     {0, []int64{4, 4, 4, 4}, 16},
		"a part granted, and enough comes back for all":  {22, []int64{4, 4}, 4},
		"nothing granted, and enough comes back for all": {29, []int64{4, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			InBothModes(t, rate, nil, func(p *Batch) {
				record := fmt.Sprintf("\x10%016d%c\x00\x00\x00", 0, byte(tc.before))
				if tc.before > 0 {
					p.Record(p.Now-1, record)
					p.SetKey(p.ValueKey(), rate-tc.before)
				}
				guests := p.JoinAll(tc.permits...)
				merged := p.Merges()
				p.Proxy.Cut()
				p.Agree(rate, rate-1-tc.before, guests)
				if tc.before > 0 {
					p.Want(p.Look.ZRem(context.Background(), p.PermitsKey(), record).Err())
					p.Want(p.Look.IncrBy(context.Background(), p.ValueKey(), tc.before).Err())
				}
				before := p.ScriptsRun()
				merged()
				Until(p.T, func() bool { return p.ScriptsRun() > before })
				p.UntilOut(1 + tc.granted)
				p.WantTaken(rate, 1+tc.granted)
			})
		})
	}
}

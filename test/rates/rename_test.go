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

// B10: what concerns a limiter concerns all of its keys.
func TestB10RenameTakesThePermitsAlong(t *testing.T) {
	for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
		t.Run(typ.String(), func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				ctx := b.Context()
				l := b.NewLimiter(typ, 5, time.Second)
				l.Takes(3)
				target := b.NewLimiter(typ, 9, time.Second)
				target.Takes(9)
				old := l.Name()
				b.Want(l.Rename(ctx, target.Name()))
				if l.Name() != target.Name() {
					b.Fatalf("the limiter is called %q after its rename", l.Name())
				}
				l.Has(2)
				target.Has(2)
				if keys := b.Look.Keys(ctx, "*"+old+"*").Val(); len(keys) != 0 {
					b.Fatalf("left under the old name: %q", keys)
				}
				WantErr(b, b.Client.RateLimiter(old).Rename(ctx, "new"), rratelimiter.ErrNotInitialized)
				unused := b.NewLimiter(typ, 5, time.Second)
				b.Want(unused.Rename(ctx, l.Name())) // nothing stays of the limiter that had the name
				l.Has(5)
			})
		})
	}
}

// B9, B10: a limiter that gets its old name back does not trust the value that it had under it.
func TestANameThatComesBackVouchesForNothing(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l, ctx := b.NewLimiter(PerClient, 10, time.Minute), b.Context()
		changes := func(rate int64) { // by another Client, which cannot reach the value of this one
			b.Want(l.With().SetRate(ctx, PerClient, rate, time.Minute, rratelimiter.WithKeepState()))
		}
		name := l.Name()
		changes(20)
		l.Takes(3)
		b.Want(l.Rename(ctx, name+"-new"))
		changes(10)
		l.Takes(1)
		changes(20)
		b.Want(l.Rename(ctx, name))
		l.Has(16)
	})
}

package rates_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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

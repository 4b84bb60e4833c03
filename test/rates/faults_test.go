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
			})
		})
	}
}

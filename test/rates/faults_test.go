package rates_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// B7: keep alive can be taken back. A TrySetRate that returns false does not set it.
func TestB7KeepAliveCanBeTakenBack(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		for _, keep := range [][]rratelimiter.RateOption{nil, {rratelimiter.WithKeepState()}} {
			l := b.NewLimiter(Overall, 10, time.Second, rratelimiter.WithKeepAlive(time.Minute))
			l.Takes(1)
			b.Lives(59*time.Second+1, Ever, l.Keys()...)
			b.Want(l.SetRate(ctx, Overall, 10, time.Second, keep...))
			l.Takes(1)
			b.Lives(-1, -1, l.Keys()...)
		}
	})
}

// B8: a change of type and a delete leave nothing behind. A restart leaves nothing
// for good.
func TestB8NothingIsStranded(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		l := b.NewLimiter(Overall, 5, time.Second)
		l.Takes(1)
		ofClient := ":" + b.Client.ID()
		b.Want(l.SetRate(ctx, PerClient, 5, time.Second))
		l.Takes(1)
		if n := b.Look.Exists(ctx, l.ValueKey(), l.PermitsKey()).Val(); n != 0 {
			b.Fatal("the shared keys were left behind")
		}
		b.Lives(2*time.Second, time.Hour, l.ValueKey()+ofClient, l.PermitsKey()+ofClient)
		b.Want(l.SetRate(ctx, Overall, 5, time.Second))
		l.Takes(1)
		if n := b.Look.Exists(ctx, l.ValueKey()+ofClient, l.PermitsKey()+ofClient).Val(); n != 0 {
			b.Fatal("our own keys were left behind")
		}
		b.SetKey(l.ValueKey()+ofClient, 1)
		b.Want(Yes(l.Delete(ctx)))
		if keys := b.Look.Keys(ctx, "*"+l.Name()+"*").Val(); len(keys) != 0 {
			b.Fatalf("left after Delete: %q", keys)
		}
	})
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
			})
		})
	}
}

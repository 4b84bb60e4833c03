package rates_test

import (
	"fmt"
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

// B9: a change of rate reaches the other clients, whose own keys it does not touch.
func TestB9AChangeOfRateReachesTheOtherClients(t *testing.T) {
	for _, tc := range []struct{ from, taken, to, left int64 }{
		{10, 4, 20, 16}, // raised: they must not keep the old ceiling
		{10, 5, 6, 1},   // lowered: value 5 looks right but is not
		{10, 8, 5, 0},   // lowered below what is taken
	} {
		t.Run(fmt.Sprintf("%d to %d", tc.from, tc.to), func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := b.NewLimiter(PerClient, tc.from, time.Second)
				l.Takes(tc.taken)
				other := b.NewClient().RateLimiter(l.Name())
				b.Want(other.SetRate(b.Context(), PerClient, tc.to, time.Second))
				b.Now += 10
				if tc.left > 0 {
					l.Takes(tc.left)
				}
				l.Refused(1, 990*time.Millisecond)
				ofClient := ":" + b.Client.ID()
				l.Keeps(tc.to, l.ValueKey()+ofClient, l.PermitsKey()+ofClient)
				b.Now += 1000
				l.Takes(tc.to)
			})
		})
	}
}

// B9: looking at the limiter, or another call in between, does not hide the change.
func TestB9AChangeOfRateIsNotHidden(t *testing.T) {
	for name, between := range map[string]func(l *Limiter, change func(rate int64)){
		"peek":    func(l *Limiter, change func(int64)) { change(6); l.Has(1) },
		"release": func(l *Limiter, change func(int64)) { change(15); l.Gives(1); change(5) },
		"more than the rate": func(l *Limiter, change func(int64)) {
			change(6)
			_, err := l.Allow(l.Context(), 7)
			WantErr(l, err, rratelimiter.ErrPermitsExceedRate)
		},
		"set rate": func(l *Limiter, change func(int64)) {
			l.Want(l.SetRate(l.Context(), PerClient, 15, time.Second, rratelimiter.WithKeepState()))
			change(6)
		},
	} {
		t.Run(name, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := b.NewLimiter(PerClient, 10, time.Second)
				l.Takes(5)
				other := b.NewClient().RateLimiter(l.Name())
				between(l, func(rate int64) {
					b.Want(other.SetRate(b.Context(), PerClient, rate, time.Second))
				})
				l.Takes(1)
				l.Refused(1, time.Second)
			})
		})
	}
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

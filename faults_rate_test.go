package rratelimiter_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// B6: leftovers of an earlier limiter do not limit the new one.
func TestB6ANewRateStartsWithoutLeftovers(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 0, 0)
		b.set(l.value(), 3)
		l.record(b.now, "\x10aaaaaaaaaaaaaaaa\x04\x00\x00\x00")
		ok, err := l.TrySetRate(b.Context(), overall, 100, time.Second)
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		l.has(100)
		l.takes(100)
	})
}

// B7: keep alive can be taken back. A TrySetRate that returns false does not set it.
func TestB7KeepAliveCanBeTakenBack(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		for _, keep := range [][]rratelimiter.RateOption{nil, {rratelimiter.WithKeepState()}} {
			l := b.limiter(overall, 10, time.Second, rratelimiter.WithKeepAlive(time.Minute))
			l.takes(1)
			for _, key := range []string{l.Name(), l.value(), l.permits()} {
				if ttl := b.look.PTTL(ctx, key).Val(); ttl <= 59*time.Second {
					b.Fatalf("%s lives for %v, want a minute", key, ttl)
				}
			}
			b.want(l.SetRate(ctx, overall, 10, time.Second, keep...))
			l.takes(1)
			for _, key := range []string{l.Name(), l.value(), l.permits()} {
				if ttl := b.look.PTTL(ctx, key).Val(); ttl != -1 {
					b.Fatalf("%s lives for %v, want for ever", key, ttl)
				}
			}
		}
	})
}

func TestB7TrySetRateThatReturnsFalseChangesNothing(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 0, 0)
		// Redisson before 3.38
		b.want(b.look.HSet(b.Context(), l.Name(), "rate", 5, "interval", 1000, "type", 0).Err())
		b.set(l.value(), 2)
		before := l.dump()
		ok, err := l.TrySetRate(b.Context(), overall, 7, time.Second, rratelimiter.WithKeepAlive(time.Minute))
		if ok || err != nil {
			b.Fatal(ok, err)
		}
		if after := l.dump(); after != before {
			b.Fatalf("changed:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// B8: a change of type and a delete leave nothing behind. A restart leaves nothing
// for good.
func TestB8NothingIsStranded(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		l := b.limiter(overall, 5, time.Second)
		l.takes(1)
		own := ":" + b.client.ID()
		b.want(l.SetRate(ctx, perClient, 5, time.Second))
		l.takes(1)
		if n := b.look.Exists(ctx, l.value(), l.permits()).Val(); n != 0 {
			b.Fatal("the shared keys were left behind")
		}
		for _, key := range []string{l.value() + own, l.permits() + own} {
			if ttl := b.look.PTTL(ctx, key).Val(); ttl < 2*time.Second || ttl > time.Hour {
				b.Fatalf("%s lives for %v, want some intervals", key, ttl)
			}
		}
		b.want(l.SetRate(ctx, overall, 5, time.Second))
		l.takes(1)
		if n := b.look.Exists(ctx, l.value()+own, l.permits()+own).Val(); n != 0 {
			b.Fatal("our own keys were left behind")
		}
		b.set(l.value()+own, 1)
		if ok, err := l.Delete(ctx); !ok || err != nil {
			b.Fatal(ok, err)
		}
		if keys := b.look.Keys(ctx, "*"+l.Name()+"*").Val(); len(keys) != 0 {
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
			onBoth(t, func(b *bench) {
				l := b.limiter(perClient, tc.from, time.Second)
				l.takes(tc.taken)
				other := b.newClient().RateLimiter(l.Name())
				b.want(other.SetRate(b.Context(), perClient, tc.to, time.Second))
				b.now += 10
				if tc.left > 0 {
					l.takes(tc.left)
				}
				l.refused(1, 990*time.Millisecond)
				own := ":" + b.client.ID()
				l.keeps(tc.to, l.value()+own, l.permits()+own)
				b.now += 1000
				l.takes(tc.to)
			})
		})
	}
}

// B9: looking at the limiter, or another call in between, does not hide the change.
func TestB9AChangeOfRateIsNotHidden(t *testing.T) {
	for name, between := range map[string]func(l *limiter, change func(rate int64)){
		"peek":    func(l *limiter, change func(int64)) { change(6); l.has(1) },
		"release": func(l *limiter, change func(int64)) { change(15); l.gives(1); change(5) },
		"more than the rate": func(l *limiter, change func(int64)) {
			change(6)
			_, err := l.Allow(l.b.Context(), 7)
			if !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
				l.b.Fatal(err)
			}
		},
		"set rate": func(l *limiter, change func(int64)) {
			l.b.want(l.SetRate(l.b.Context(), perClient, 15, time.Second, rratelimiter.WithKeepState()))
			change(6)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(b *bench) {
				l := b.limiter(perClient, 10, time.Second)
				l.takes(5)
				other := b.newClient().RateLimiter(l.Name())
				between(l, func(rate int64) {
					b.want(other.SetRate(b.Context(), perClient, rate, time.Second))
				})
				l.takes(1)
				l.refused(1, time.Second)
			})
		})
	}
}

// B10: what concerns a limiter concerns all of its keys.
func TestB10RenameTakesThePermitsAlong(t *testing.T) {
	for _, typ := range []rratelimiter.RateType{overall, perClient} {
		t.Run(typ.String(), func(t *testing.T) {
			onBoth(t, func(b *bench) {
				ctx := b.Context()
				l := b.limiter(typ, 5, time.Second)
				l.takes(3)
				target := b.limiter(typ, 9, time.Second)
				target.takes(9)
				old := l.Name()
				b.want(l.Rename(ctx, target.Name()))
				if l.Name() != target.Name() {
					b.Fatalf("the limiter is called %q after its rename", l.Name())
				}
				l.has(2)
				target.has(2)
				if keys := b.look.Keys(ctx, "*"+old+"*").Val(); len(keys) != 0 {
					b.Fatalf("left under the old name: %q", keys)
				}
				if err := b.client.RateLimiter(old).Rename(ctx, "new"); !errors.Is(err,
					rratelimiter.ErrNotInitialized) {
					b.Fatalf("renaming nothing: %v", err)
				}
			})
		})
	}
}

// B11: a lower rate does not forget what was taken under the higher one.
func TestB11ALowerRateKeepsTheDebt(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(4)
		b.now += 500
		l.takes(4)
		b.now += 100
		ok, err := l.UpdateRate(b.Context(), overall, 5, time.Second, rratelimiter.WithKeepState())
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		if v := b.look.Get(b.Context(), l.value()).Val(); v != "-3" {
			b.Fatalf("value %s, want -3", v)
		}
		l.has(0)
		l.refused(1, 400*time.Millisecond)
		b.now += 400 // the first 4 are back: 5 - 4
		l.takes(1)
		l.refused(1, 500*time.Millisecond)
		l.keeps(5, l.value(), l.permits())
	})
}

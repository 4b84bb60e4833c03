package rates_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestAPerClientLimiterHasOwnKeys(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		c := b.NewClient(rratelimiter.WithID("pod-7"), rratelimiter.WithNameMapper(func(n string) string {
			return "app:" + n
		}))
		if c.ID() != "pod-7" {
			b.Fatal(c.ID())
		}
		for name, keys := range map[string][]string{
			"a":     {"app:a", "{app:a}:value:pod-7", "{app:a}:permits:pod-7"},
			"u:{4}": {"app:u:{4}", "app:u:{4}:value:pod-7", "app:u:{4}:permits:pod-7"},
		} {
			l := b.Wrap(c.RateLimiter(name))
			b.Want(l.SetRate(b.Context(), PerClient, 5, time.Second))
			l.Takes(2)
			if l.Name() != name {
				b.Errorf("called %q, want %q", l.Name(), name)
			}
			if n := b.Look.Exists(b.Context(), keys...).Val(); n != 3 {
				b.Errorf("%d of %q are there: %q", n, keys, b.Look.Keys(b.Context(), "*").Val())
			}
			l.Keeps(5, keys[1], keys[2])
		}
	})
}

// The end of a limiter is a point in time, which is taken back, and passes.
func TestALimiterEndsAtAPointInTime(t *testing.T) {
	for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
		OnBoth(t, func(b *Bench) {
			l, ctx, at := b.NewLimiter(typ, 5, time.Second), b.Context(), serverTime(b).Add(5*time.Minute)
			l.Takes(1)
			b.Want(Yes(l.ExpireAt(ctx, at)))
			l.EndsAt(at)
			got, err := l.RemainTimeToLive(ctx)
			if err != nil || got > 5*time.Minute || got < 4*time.Minute {
				b.Fatalf("RemainTimeToLive %v, %v", got, err)
			}
			b.Want(Yes(l.ClearExpire(ctx)))
			if got, err := l.RemainTimeToLive(ctx); err != nil || got != rratelimiter.NoTimeToLive {
				b.Fatalf("RemainTimeToLive %v, %v", got, err)
			}
			l.EndsAt(time.Time{})
			b.Want(Yes(l.ExpireAt(ctx, serverTime(b).Add(-time.Second))))
			if keys := b.Look.Keys(ctx, "*"+l.Name()+"*").Val(); len(keys) > 0 {
				b.Fatalf("%q are there after the time has passed", keys)
			}
		})
	}
}

func serverTime(b *Bench) time.Time {
	b.Helper()
	now, err := b.Look.Time(b.Context()).Result()
	b.Want(err)
	return now
}

// An interval is whole milliseconds, as in Redisson, and without a clock the time is the server's.
func TestPartsOfAMillisecondAreCutOff(t *testing.T) {
	s := redistest.Start(t)
	l := NewClient(t, s.Client(t), rratelimiter.WithClock(nil)).RateLimiter(redistest.Name(t))
	NoError(t, Yes(l.TrySetRate(t.Context(), Overall, 1, time.Hour+1500*time.Microsecond)))
	c := redistest.Must(l.Config(t.Context()))(t)
	NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
	r := redistest.Must(l.Peek(t.Context()))(t)
	if c.Interval != time.Hour+time.Millisecond || r.RetryAfter < 59*time.Minute {
		t.Errorf("%v, then %v", c, r)
	}
}

func TestOneOfManySetsTheRate(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	l := b.NewLimiter(Overall, 0, 0)
	var set atomic.Int64
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			ok, err := b.NewClient().RateLimiter(l.Name()).TrySetRate(context.Background(), Overall,
				int64(i+1), time.Second)
			if err != nil {
				t.Error(err)
			}
			if ok {
				set.Add(1)
			}
		})
	}
	group.Wait()
	if set.Load() != 1 {
		t.Fatalf("%d callers got true for setting the rate", set.Load())
	}
}

package rates_test

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// What is written, byte by byte, is what Redisson 4.7.0 writes.
func TestKeysAreWrittenAsByRedisson(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		l := b.NewLimiter(Overall, 0, 0)
		ok, err := l.TrySetRate(ctx, Overall, 5, 1500*time.Microsecond,
			rratelimiter.WithKeepAlive(time.Minute))
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		want := map[string]string{"rate": "5", "interval": "1", "type": "0", "keepAliveTime": "60000"}
		if got := b.Look.HGetAll(ctx, l.Name()).Val(); !maps.Equal(got, want) {
			b.Fatalf("hash %v, want %v", got, want)
		}
		l.Takes(3)
		if got := b.Look.Get(ctx, l.ValueKey()).Val(); got != "2" {
			b.Fatalf("value %q, want 2", got)
		}
		records := b.Look.ZRangeWithScores(ctx, l.PermitsKey(), 0, -1).Val()
		if len(records) != 1 || records[0].Score != float64(b.Now) {
			b.Fatalf("records %v, want one at %d", records, b.Now)
		}
		m := records[0].Member.(string)
		if len(m) != 21 || m[0] != 16 || m[17:] != "\x03\x00\x00\x00" {
			b.Fatalf("record % x, want 10, 16 random bytes, 03 00 00 00", m)
		}
	})
}

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

func TestAllowAndPeekAnswerWithNumbers(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 5, time.Second)
		peek := func(want rratelimiter.Result) {
			b.Helper()
			want.Name, want.Interval = l.Name(), time.Second
			if got, err := l.Peek(b.Context()); !reflect.DeepEqual(got, want) || err != nil {
				b.Fatalf("peek %+v, %v; want %+v", got, err, want)
			}
		}
		allow := func(n int64, want rratelimiter.Result) {
			b.Helper()
			want.Name, want.Interval = l.Name(), time.Second
			if got, err := l.Allow(b.Context(), n); !reflect.DeepEqual(got, want) || err != nil {
				b.Fatalf("allow %+v, %v; want %+v", got, err, want)
			}
		}
		ms := time.Millisecond
		peek(rratelimiter.Result{Allowed: true, Limit: 5, Remaining: 5})
		allow(3, rratelimiter.Result{Allowed: true, Limit: 5, Remaining: 2, ResetAfter: 1000 * ms})
		b.Now += 400
		allow(3, rratelimiter.Result{Limit: 5, Remaining: 2, RetryAfter: 600 * ms, ResetAfter: 600 * ms})
		allow(2, rratelimiter.Result{Allowed: true, Limit: 5, ResetAfter: 1000 * ms})
		peek(rratelimiter.Result{Limit: 5, RetryAfter: 600 * ms, ResetAfter: 1000 * ms})
		b.Now += 600
		peek(rratelimiter.Result{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: 400 * ms})
		b.Now += 400
		peek(rratelimiter.Result{Allowed: true, Limit: 5, Remaining: 5})
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

// Value and permits never outlive one another, nor the hash by much: with keep
// alive each use prolongs all of them.
func TestKeepAliveSlides(t *testing.T) {
	m := redistest.Mini(t)
	b := NewBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
	l := b.NewLimiter(Overall, 5, time.Second, rratelimiter.WithKeepAlive(10*time.Second))
	for range 5 {
		m.FastForward(9 * time.Second)
		b.Now += 9000
		l.Takes(5)
	}
	m.FastForward(9 * time.Second)
	l.Gives(1)
	m.FastForward(9 * time.Second)
	l.Refused(5, 500*time.Millisecond+500*time.Millisecond) // a refusal is also a use
	m.FastForward(9 * time.Second)
	NoError(t, Yes(l.Exists(t.Context())))
	m.FastForward(2 * time.Second)
	if keys := m.Keys(); len(keys) != 0 {
		t.Fatalf("left after its time: %q", keys)
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

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

func TestTimeToLiveIsThatOfAllKeys(t *testing.T) {
	for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
		t.Run(typ.String(), func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := newMortal(b, typ)
				l.Takes(1)
				l.outlives()
				l.ends()
			})
		})
	}
}

// A mortal is a limiter with a time to live.
type mortal struct {
	*Limiter
	typ  rratelimiter.RateType
	keys []string
}

func newMortal(b *Bench, typ rratelimiter.RateType) *mortal {
	l := b.NewLimiter(typ, 5, time.Second)
	m := &mortal{l, typ, l.Keys()}
	if typ == PerClient {
		m.keys[1] += ":" + b.Client.ID()
		m.keys[2] += ":" + b.Client.ID()
	}
	return m
}

// lives expects the keys to live for want; -1 is for ever.
func (m *mortal) lives(what string, want time.Duration) {
	m.Helper()
	for i, key := range m.keys {
		if i > 0 && want == -1 && m.typ == PerClient {
			continue // a life of its own
		}
		got := m.Look.PTTL(m.Context(), key).Val()
		if (want == -1) != (got == -1) || got > want || (want > 0 && got < want-5*time.Second) {
			m.Fatalf("%s: %s lives for %v, want %v", what, key, got, want)
		}
	}
}

// outlives changes the time to live in every way.
func (m *mortal) outlives() {
	m.Helper()
	type set func(context.Context, time.Duration) (bool, error)
	never := func(ctx context.Context, _ time.Duration) (bool, error) { return m.ClearExpire(ctx) }
	at := func(ctx context.Context, d time.Duration) (bool, error) {
		return m.ExpireAt(ctx, serverTime(m.Bench).Add(d))
	}
	acquire := func(context.Context, time.Duration) (bool, error) { m.Takes(1); return true, nil }
	for _, step := range []struct {
		what  string
		set   set
		d     time.Duration
		ok    bool
		lives time.Duration
	}{
		{"ExpireIfSet", m.ExpireIfSet, time.Hour, false, -1},
		{"ExpireIfGreater than never", m.ExpireIfGreater, time.Hour, false, -1},
		{"ClearExpire", never, 0, false, -1},
		{"ExpireIfNotSet", m.ExpireIfNotSet, time.Hour, true, time.Hour},
		{"acquire", acquire, 0, true, time.Hour},
		{"ExpireIfNotSet again", m.ExpireIfNotSet, time.Minute, false, time.Hour},
		{"ExpireIfGreater", m.ExpireIfGreater, time.Minute, false, time.Hour},
		{"ExpireIfLess", m.ExpireIfLess, 2 * time.Hour, false, time.Hour},
		{"ExpireIfLess", m.ExpireIfLess, time.Minute, true, time.Minute},
		{"ExpireIfGreater", m.ExpireIfGreater, 2 * time.Minute, true, 2 * time.Minute},
		{"ExpireIfSet", m.ExpireIfSet, 3 * time.Minute, true, 3 * time.Minute},
		{"Expire", m.Expire, 4 * time.Minute, true, 4 * time.Minute},
		{"ExpireAt", at, 5 * time.Minute, true, 5 * time.Minute},
	} {
		ok, err := step.set(m.Context(), step.d)
		if ok != step.ok || err != nil {
			m.Fatalf("%s: %v, %v; want %v", step.what, ok, err, step.ok)
		}
		m.lives(step.what, step.lives)
	}
}

// ends sets the end as a point in time, takes it back, and lets it pass.
func (m *mortal) ends() {
	b := m.Bench
	b.Helper()
	ctx, at := b.Context(), serverTime(b).Add(5*time.Minute)
	b.Want(Yes(m.ExpireAt(ctx, at)))
	m.EndsAt(at)
	got, err := m.RemainTimeToLive(ctx)
	if err != nil || got > 5*time.Minute || got < 4*time.Minute {
		b.Fatalf("RemainTimeToLive %v, %v", got, err)
	}
	b.Want(Yes(m.ClearExpire(ctx)))
	m.lives("ClearExpire", -1)
	if got, err := m.RemainTimeToLive(ctx); err != nil || got != rratelimiter.NoTimeToLive {
		b.Fatalf("RemainTimeToLive %v, %v", got, err)
	}
	m.EndsAt(time.Time{})
	b.Want(Yes(m.ExpireAt(ctx, serverTime(b).Add(-time.Second))))
	if n := b.Look.Exists(ctx, m.keys...).Val(); n != 0 {
		b.Fatalf("%d keys are there after the time has passed", n)
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

// If many callers set the rate at once, exactly one gets true.
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

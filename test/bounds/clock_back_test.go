package bounds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A served limiter takes its time from the server, and that time can be put back.
// On miniredis this moves the clock, on a real server the records move ahead.
type served struct {
	*Limiter
	opts []rratelimiter.Option
	mini *miniredis.Miniredis
}

// onServers runs a spec on servers whose time counts, for records of each kind.
func onServers(t *testing.T, spec func(s *served)) {
	t.Helper()
	for kind, opts := range map[string][]rratelimiter.Option{
		"default": nil, "resolution": {rratelimiter.WithResolution(100 * time.Millisecond)},
		"fI": {rratelimiter.WithRedisson(FI)},
	} {
		on := func(name string, mini *miniredis.Miniredis, rdb, look *redis.Client) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				b := &Bench{T: t, RDB: rdb, Look: look}
				b.Client = rratelimiter.New(rdb, opts...)
				t.Cleanup(func() { _ = b.Client.Close() })
				spec(&served{b.Wrap(b.Client.RateLimiter(redistest.Name(t))), opts, mini})
			})
		}
		mini := redistest.Mini(t)
		on("miniredis", mini, redistest.MiniClient(t, mini), redistest.MiniClient(t, mini))
		s := redistest.Start(t)
		on("redis", nil, s.Client(t), s.Admin())
	}
}

// now returns the time of the server in ms.
func (s *served) now() int64 { return s.Look.Time(context.Background()).Val().UnixMilli() }

// back puts the clock back, seen from the records.
func (s *served) back(d time.Duration) {
	s.Helper()
	if s.mini != nil {
		s.mini.SetTime(s.Look.Time(s.Context()).Val().Add(-d))
		return
	}
	var ahead []redis.Z
	for _, z := range s.Look.ZRangeWithScores(s.Context(), s.PermitsKey(), 0, -1).Val() {
		ahead = append(ahead, redis.Z{Score: z.Score + float64(d.Milliseconds()), Member: z.Member})
	}
	s.Want(s.Look.ZAddXX(s.Context(), s.PermitsKey(), ahead...).Err())
}

// passes lets time go by.
func (s *served) passes(d time.Duration) {
	if s.mini != nil {
		s.mini.SetTime(s.Look.Time(s.Context()).Val().Add(d))
		return
	}
	time.Sleep(d)
}

// scores returns the times of the records, counted from now. It expects some.
func (s *served) scores() (ms []float64) {
	now := s.now()
	for _, z := range s.Look.ZRangeWithScores(context.Background(), s.PermitsKey(), 0, -1).Val() {
		ms = append(ms, z.Score-float64(now))
	}
	if len(ms) == 0 {
		s.Fatal("there are no records")
	}
	return ms
}

// B5: when the clock of the server is put back, the permits that are out come
// back an interval later, and callers learn of that.
func TestPermitsComeBackAfterTheClockIsPutBack(t *testing.T) {
	onServers(t, func(s *served) {
		b := s.Bench
		b.Want(s.SetRate(b.Context(), Overall, 5, 500*time.Millisecond))
		s.Takes(2)
		s.passes(110 * time.Millisecond)
		s.Takes(3)
		s.back(30 * time.Second)
		before := s.Dump()
		r, err := s.Peek(b.Context())
		if err != nil || r.Remaining != 0 || r.RetryAfter > 500*time.Millisecond ||
			r.ResetAfter > 600*time.Millisecond {
			b.Fatalf("%+v, %v", r, err)
		}
		if s.Dump() != before {
			b.Fatal("peek has written")
		}
		for range 2 {
			if r, err = s.Allow(b.Context(), 5); err != nil || r.Allowed ||
				r.RetryAfter > 500*time.Millisecond {
				b.Fatalf("%+v, %v", r, err)
			}
		}
		for _, ms := range s.scores() {
			if ms > 1 {
				b.Fatalf("records %v from now", s.scores())
			}
		}
		s.Keeps(5, s.ValueKey(), s.PermitsKey())
		s.passes(505 * time.Millisecond)
		s.Takes(5)
		s.Keeps(5, s.ValueKey(), s.PermitsKey())
	})
}

// The first call after that brings the records back: also a release, and an acquire
// that is granted.
func TestTheFirstCallBringsRecordsBack(t *testing.T) {
	for what, call := range map[string]func(s *served){
		"acquire": func(s *served) { s.Takes(1) },
		"release": func(s *served) { s.Gives(1) },
		"refused": func(s *served) { s.Want(No(s.TryAcquire(s.Context(), 9, 0))) },
	} {
		t.Run(what, func(t *testing.T) {
			onServers(t, func(s *served) {
				s.Want(s.SetRate(s.Context(), Overall, 9, time.Minute))
				s.Takes(3)
				s.back(2 * time.Minute)
				call(s)
				if scores := s.scores(); scores[0] > 1 {
					s.Fatalf("records %v from now", scores)
				}
				s.Keeps(9, s.ValueKey(), s.PermitsKey())
			})
		})
	}
}

// Records may be ahead by right: those of a resolution, and those of clocks that
// differ a little. They stay where they are. A client with a clock of its own moves
// none.
func TestRecordsAheadByRightStayWhereTheyAre(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		b.Client = rratelimiter.New(b.RDB)
		t.Cleanup(func() { _ = b.Client.Close() })
		now := b.Look.Time(b.Context()).Val().UnixMilli()
		far := now + time.Hour.Milliseconds()
		merged, plain := "\x10\xd2GoRateLimitxxxx\x01\x00\x00\x00", "\x10abcdefghijklmnop\x01\x00\x00\x00"
		for _, tc := range []struct {
			interval time.Duration
			member   string
			ahead    int64
			stays    bool
		}{
			{time.Minute, plain, 900, true},
			{time.Minute, plain, 2500, false},
			{5 * time.Second, plain, 400, true},
			{5 * time.Second, plain, 900, false},
			{time.Minute, merged, 59_000, true},
			{time.Minute, merged, 62_000, false},
			{time.Minute, "\x08\xd2GoRxxxx\x01\x00\x00\x00", 59_000, true},
			{time.Minute, "\x08\x00\x00\x00\x00\x00\x00\x00\xd2GoRxxxx\x01\x00\x00\x00", 59_000, true},
			{time.Minute, "\x08\x00\x00\x00\x00\x00\x00\x00\xd2GzRxxxx\x01\x00\x00\x00", 59_000, false},
			{time.Minute, "\x03abc\x01\x00\x00\x00", 59_000, true},
			{time.Minute, "\x03abc\x01\x00\x00\x00", 62_000, false},
		} {
			l := b.NewLimiter(Overall, 5, tc.interval)
			l.Record(now+tc.ahead, tc.member)
			b.SetKey(l.ValueKey(), 4)
			l.Takes(1)
			b.Want(No(l.TryAcquire(b.Context(), 5, 0)))
			score, err := b.Look.ZScore(b.Context(), l.PermitsKey(), tc.member).Result()
			b.Want(err)
			if stays := int64(score) == now+tc.ahead; stays != tc.stays ||
				!stays && score > float64(now+10_000) {
				b.Errorf("% x, %d ms ahead, interval %v: now %.0f", tc.member, tc.ahead, tc.interval,
					score-float64(now))
			}
		}
		b.Now = now
		b.Client = b.NewClient()
		l := b.NewLimiter(Overall, 5, time.Minute)
		l.Record(far, plain)
		l.Record(far, merged)
		b.SetKey(l.ValueKey(), 3)
		l.Refused(4, time.Minute+time.Second)
		l.Refused(5, 2*time.Minute)
		l.Gives(0)
		if out := b.Look.ZCount(b.Context(), l.PermitsKey(), fmt.Sprint(far), "+inf").Val(); out != 2 {
			b.Error("a client with a clock of its own has moved records of others")
		}
	})
}

// A refusal that meets a record ahead brings it back at once, whatever stands
// before it.
func TestARefusalBringsBackWhatItMeets(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		b.Client = rratelimiter.New(b.RDB)
		t.Cleanup(func() { _ = b.Client.Close() })
		l := b.NewLimiter(Overall, 5, time.Minute)
		l.Takes(2)
		now := b.Look.Time(b.Context()).Val().UnixMilli()
		l.Record(now+90_000, "\x10abcdefghijklmnop\x02\x00\x00\x00")
		b.SetKey(l.ValueKey(), 1)
		ahead := func() int64 {
			return b.Look.ZCount(b.Context(), l.PermitsKey(), fmt.Sprint(now+80_000), "+inf").Val()
		}
		if ok, err := l.TryAcquire(b.Context(), 3, 0); ok || err != nil || ahead() != 1 {
			b.Fatal(ok, err, "the oldest record is enough for that")
		}
		if ok, err := l.TryAcquire(b.Context(), 5, 0); ok || err != nil || ahead() != 0 {
			b.Fatalf("%v, %v, %d ahead", ok, err, ahead())
		}
		l.Record(now+90_000, "\x10abcdefghijklmnop\x02\x00\x00\x00")
		if r, err := l.Allow(b.Context(), 3); err != nil || r.Allowed || r.ResetAfter > time.Minute ||
			ahead() != 0 {
			b.Fatalf("%+v, %v, %d ahead: Allow meets the newest", r, err, ahead())
		}
		l.Keeps(5, l.ValueKey(), l.PermitsKey())
	})
}

// Permits that are stuck ahead while others flow are brought back within about
// an interval, however many they are.
func TestPermitsStuckAheadComeBackWithinAnInterval(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, stuck := range []int{1, 30, 1_000, 4_500} {
			b.Client = rratelimiter.New(b.RDB)
			t.Cleanup(func() { _ = b.Client.Close() })
			const interval = 200 * time.Millisecond
			rate := int64(stuck) + 10
			l := b.NewLimiter(Overall, rate, interval)
			l.Takes(5)
			l.Fill(b.Look.Time(b.Context()).Val().UnixMilli()+30_000, 1000, stuck, 1)
			b.Want(b.Look.DecrBy(b.Context(), l.ValueKey(), int64(stuck)).Err())
			start := time.Now()
			for calls := 0; calls < 20 || time.Since(start) < 2*interval; calls++ {
				b.Want(ErrOf(l.TryAcquire(b.Context(), 1, 0)))
				time.Sleep(5 * time.Millisecond)
			}
			for range 5 { // each brings back a thousand
				b.Want(ErrOf(l.TryAcquire(b.Context(), 1, 0)))
			}
			now := b.Look.Time(b.Context()).Val().UnixMilli()
			left := b.Look.ZCount(b.Context(), l.PermitsKey(), fmt.Sprint(now+1), "+inf").Val()
			if left != 0 {
				b.Errorf("%d of %d records are still ahead after %v", left, stuck, time.Since(start))
			}
			l.Keeps(rate, l.ValueKey(), l.PermitsKey())
			time.Sleep(interval + 5*time.Millisecond)
			r, err := l.Peek(b.Context())
			if err != nil || r.Remaining != rate {
				b.Errorf("%+v, %v; want all of %d", r, err, rate)
			}
			for range 10 { // as many calls as the records need
				b.Want(ErrOf(l.TryAcquire(b.Context(), 1, 0)))
			}
		}
	})
}

// A limiter of which nothing is taken lives exactly for its keep alive, as with Redisson. After an
// acquire, all keys live at least an interval and a second, so that a waiter finds the limiter when
// its permits are due. A longer keep alive stays as it is.
func TestKeysOutliveAnIntervalAfterAnAcquire(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, tc := range []struct{ interval, keepAlive, resolution, want time.Duration }{
			{time.Minute, time.Minute, 0, time.Minute + time.Second},
			{time.Minute, time.Minute + 999*time.Millisecond, 0, time.Minute + time.Second},
			{time.Minute, time.Hour, 0, time.Hour},
			{time.Minute, time.Minute, 30 * time.Second, time.Minute + 31*time.Second},
			{time.Minute, 2 * time.Minute, 30 * time.Second, 2 * time.Minute},
		} {
			l := b.NewLimiter(Overall, 5, tc.interval, rratelimiter.WithKeepAlive(tc.keepAlive))
			if tc.resolution > 0 {
				l = l.Coarse(tc.resolution)
			}
			lives := func(what string, want time.Duration, keys ...string) {
				b.Helper()
				for _, key := range keys {
					if ttl := b.Look.PTTL(b.Context(), key).Val(); ttl > want ||
						ttl < want-500*time.Millisecond {
						b.Errorf("%+v: after %s %s lives for %v, want %v", tc, what, key, ttl, want)
					}
				}
			}
			plain := max(tc.keepAlive, tc.interval+time.Second)
			lives("SetRate", tc.keepAlive, l.Name())
			all := l.Keys()
			l.Takes(3)
			lives("an acquire", tc.want, all...)
			b.Want(No(l.TryAcquire(b.Context(), 4, 0)))
			lives("a refusal", tc.want, all...)
			l.Gives(1)
			lives("a release", plain, all...)
			_, err := l.Delete(b.Context())
			b.Want(err)
			_, err = l.TrySetRate(b.Context(), Overall, 5, tc.interval,
				rratelimiter.WithKeepAlive(tc.keepAlive))
			b.Want(err)
			lives("TrySetRate", tc.keepAlive, l.Name())
		}
	})
}

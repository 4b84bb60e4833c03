package rratelimiter_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A served limiter takes its time from the server, and that time can be put back.
// On miniredis this moves the clock, on a real server the records move ahead.
type served struct {
	*limiter
	opts []rratelimiter.Option
	mini *miniredis.Miniredis
}

// onServers runs a spec on servers whose time counts, for records of each kind.
func onServers(t *testing.T, spec func(s *served)) {
	t.Helper()
	for kind, opts := range map[string][]rratelimiter.Option{
		"default": nil, "resolution": {rratelimiter.WithResolution(100 * time.Millisecond)},
		"fI": {rratelimiter.WithRedisson(fI)},
	} {
		on := func(name string, mini *miniredis.Miniredis, rdb, look *redis.Client) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				b := &bench{T: t, rdb: rdb, look: look}
				b.client = rratelimiter.New(rdb, opts...)
				t.Cleanup(func() { _ = b.client.Close() })
				spec(&served{&limiter{b.client.RateLimiter(redistest.Name(t)), b}, opts, mini})
			})
		}
		mini := redistest.Mini(t)
		on("miniredis", mini, redistest.MiniClient(t, mini), redistest.MiniClient(t, mini))
		s := redistest.Start(t)
		on("redis", nil, s.Client(t), s.Admin())
	}
}

// now returns the time of the server in ms.
func (s *served) now() int64 { return s.b.look.Time(context.Background()).Val().UnixMilli() }

// back puts the clock back, seen from the records.
func (s *served) back(d time.Duration) {
	s.b.Helper()
	if s.mini != nil {
		s.mini.SetTime(s.b.look.Time(s.b.Context()).Val().Add(-d))
		return
	}
	var ahead []redis.Z
	for _, z := range s.b.look.ZRangeWithScores(s.b.Context(), s.permits(), 0, -1).Val() {
		ahead = append(ahead, redis.Z{Score: z.Score + float64(d.Milliseconds()), Member: z.Member})
	}
	s.b.want(s.b.look.ZAddXX(s.b.Context(), s.permits(), ahead...).Err())
}

// passes lets time go by.
func (s *served) passes(d time.Duration) {
	if s.mini != nil {
		s.mini.SetTime(s.b.look.Time(s.b.Context()).Val().Add(d))
		return
	}
	time.Sleep(d)
}

// scores returns the times of the records, counted from now. It expects some.
func (s *served) scores() (ms []float64) {
	now := s.now()
	for _, z := range s.b.look.ZRangeWithScores(context.Background(), s.permits(), 0, -1).Val() {
		ms = append(ms, z.Score-float64(now))
	}
	if len(ms) == 0 {
		s.b.Fatal("there are no records")
	}
	return ms
}

// B5: when the clock of the server is put back, the permits that are out come
// back an interval later, and callers learn of that.
func TestTheClockIsPutBack(t *testing.T) {
	onServers(t, func(s *served) {
		b := s.b
		b.want(s.SetRate(b.Context(), overall, 5, 500*time.Millisecond))
		s.takes(2)
		s.passes(110 * time.Millisecond)
		s.takes(3)
		s.back(30 * time.Second)
		before := s.dump()
		r, err := s.Peek(b.Context())
		if err != nil || r.Remaining != 0 || r.RetryAfter > 500*time.Millisecond ||
			r.ResetAfter > 600*time.Millisecond {
			b.Fatalf("%+v, %v", r, err)
		}
		if s.dump() != before {
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
		s.keeps(5, s.value(), s.permits())
		s.passes(505 * time.Millisecond)
		s.takes(5)
		s.keeps(5, s.value(), s.permits())
	})
}

// The first call after that brings the records back: also a release, and an acquire
// that is granted.
func TestTheFirstCallBringsRecordsBack(t *testing.T) {
	for what, call := range map[string]func(s *served){
		"acquire": func(s *served) { s.takes(1) },
		"release": func(s *served) { s.gives(1) },
		"refused": func(s *served) { s.b.want(no(s.TryAcquire(s.b.Context(), 9, 0))) },
	} {
		t.Run(what, func(t *testing.T) {
			onServers(t, func(s *served) {
				s.b.want(s.SetRate(s.b.Context(), overall, 9, time.Minute))
				s.takes(3)
				s.back(2 * time.Minute)
				call(s)
				if scores := s.scores(); scores[0] > 1 {
					s.b.Fatalf("records %v from now", scores)
				}
				s.keeps(9, s.value(), s.permits())
			})
		})
	}
}

// Records may be ahead by right: those of a resolution, and those of clocks that
// differ a little. They stay where they are. A client with a clock of its own moves
// none.
func TestRecordsThatMayBeAhead(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.client = rratelimiter.New(b.rdb)
		t.Cleanup(func() { _ = b.client.Close() })
		now := b.look.Time(b.Context()).Val().UnixMilli()
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
			l := b.limiter(overall, 5, tc.interval)
			l.record(now+tc.ahead, tc.member)
			b.set(l.value(), 4)
			l.takes(1)
			if ok, err := l.TryAcquire(b.Context(), 5, 0); ok || err != nil {
				b.Fatal(ok, err)
			}
			score, err := b.look.ZScore(b.Context(), l.permits(), tc.member).Result()
			b.want(err)
			if stays := int64(score) == now+tc.ahead; stays != tc.stays ||
				!stays && score > float64(now+10_000) {
				b.Errorf("% x, %d ms ahead, interval %v: now %.0f", tc.member, tc.ahead, tc.interval,
					score-float64(now))
			}
		}
		b.now = now
		b.client = b.newClient()
		l := b.limiter(overall, 5, time.Minute)
		l.record(far, plain)
		l.record(far, merged)
		b.set(l.value(), 3)
		l.refused(4, time.Minute+time.Second)
		l.refused(5, 2*time.Minute)
		l.gives(0)
		if out := b.look.ZCount(b.Context(), l.permits(), fmt.Sprint(far), "+inf").Val(); out != 2 {
			b.Error("a client with a clock of its own has moved records of others")
		}
	})
}

// A refusal that meets a record ahead brings it back at once, whatever stands
// before it.
func TestARefusalBringsBackWhatItMeets(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.client = rratelimiter.New(b.rdb)
		t.Cleanup(func() { _ = b.client.Close() })
		l := b.limiter(overall, 5, time.Minute)
		l.takes(2)
		now := b.look.Time(b.Context()).Val().UnixMilli()
		l.record(now+90_000, "\x10abcdefghijklmnop\x02\x00\x00\x00")
		b.set(l.value(), 1)
		ahead := func() int64 {
			return b.look.ZCount(b.Context(), l.permits(), fmt.Sprint(now+80_000), "+inf").Val()
		}
		if ok, err := l.TryAcquire(b.Context(), 3, 0); ok || err != nil || ahead() != 1 {
			b.Fatal(ok, err, "the oldest record is enough for that")
		}
		if ok, err := l.TryAcquire(b.Context(), 5, 0); ok || err != nil || ahead() != 0 {
			b.Fatalf("%v, %v, %d ahead", ok, err, ahead())
		}
		l.record(now+90_000, "\x10abcdefghijklmnop\x02\x00\x00\x00")
		if r, err := l.Allow(b.Context(), 3); err != nil || r.Allowed || r.ResetAfter > time.Minute ||
			ahead() != 0 {
			b.Fatalf("%+v, %v, %d ahead: Allow meets the newest", r, err, ahead())
		}
		l.keeps(5, l.value(), l.permits())
	})
}

// Permits that are stuck ahead while others flow are brought back within about
// an interval, however many they are.
func TestPermitsThatAreStuckAhead(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, stuck := range []int{1, 30, 1_000, 4_500} {
			b.client = rratelimiter.New(b.rdb)
			t.Cleanup(func() { _ = b.client.Close() })
			const interval = 200 * time.Millisecond
			rate := int64(stuck) + 10
			l := b.limiter(overall, rate, interval)
			l.takes(5)
			l.fill(b.look.Time(b.Context()).Val().UnixMilli()+30_000, 1000, stuck, 1)
			b.want(b.look.DecrBy(b.Context(), l.value(), int64(stuck)).Err())
			start := time.Now()
			for calls := 0; calls < 20 || time.Since(start) < 2*interval; calls++ {
				if _, err := l.TryAcquire(b.Context(), 1, 0); err != nil {
					b.Fatal(err)
				}
				time.Sleep(5 * time.Millisecond)
			}
			for range 5 { // each brings back a thousand
				if _, err := l.TryAcquire(b.Context(), 1, 0); err != nil {
					b.Fatal(err)
				}
			}
			now := b.look.Time(b.Context()).Val().UnixMilli()
			if left := b.look.ZCount(b.Context(), l.permits(), fmt.Sprint(now+1), "+inf").Val(); left != 0 {
				b.Errorf("%d of %d records are still ahead after %v", left, stuck, time.Since(start))
			}
			l.keeps(rate, l.value(), l.permits())
			time.Sleep(interval + 5*time.Millisecond)
			r, err := l.Peek(b.Context())
			if err != nil || r.Remaining != rate {
				b.Errorf("%+v, %v; want all of %d", r, err, rate)
			}
			for range 10 { // as many calls as the records need
				if _, err := l.TryAcquire(b.Context(), 1, 0); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// Permits lie behind more than 5,000 records. A waiter in line is told when to look
// again, and Allow when they will be there.
func TestADeepWaitInAndOutOfLine(t *testing.T) {
	n := newLine(t, 8_000, time.Second)
	n.l.fill(n.now-900, 8, 8_000, 1) // 8 a ms, the last ones a little ahead
	n.set(n.l.value(), 0)
	n.l.refused(5_001, 1_099*time.Millisecond)
	n.l.refused(5_000, 724*time.Millisecond)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.l.Acquire(ctx, 5_001); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v after %v, want DeadlineExceeded", err, time.Since(start))
	}
}

// More than one record of 8 bytes is never taken for one of 16.
func TestRequestsOfSeveralShortRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, f := range formats {
			for _, opts := range [][]rratelimiter.Option{nil, {rratelimiter.WithResolution(time.Second)}} {
				for _, n := range []int64{1<<32 - 1, 1 << 32, 1<<32 + 7, 1<<33 - 2, 1<<33 - 1, 3 << 32} {
					l := b.limiter(overall, 1<<40, time.Minute).inFormat(f.since, opts...)
					l.takes(n)
					l.keeps(1<<40, l.value(), l.permits())
					out := int64(0)
					for _, m := range l.members() {
						if len(m) != f.size {
							b.Errorf("%v: % x", f, m)
						}
						out += int64(binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
					}
					if out != n {
						b.Errorf("%v: %d of %d permits in records", f, out, n)
					}
					l.gives(n)
					l.has(1 << 40)
				}
			}
		}
	})
}

// A limiter of which nothing is taken lives exactly for its keep alive, as with Redisson. After an
// acquire, all keys live at least an interval and a second, so that a waiter finds the limiter when
// its permits are due. A longer keep alive stays as it is.
func TestKeepAliveOfAnInterval(t *testing.T) {
	onBoth(t, func(b *bench) {
		for _, tc := range []struct{ interval, keepAlive, resolution, want time.Duration }{
			{time.Minute, time.Minute, 0, time.Minute + time.Second},
			{time.Minute, time.Minute + 999*time.Millisecond, 0, time.Minute + time.Second},
			{time.Minute, time.Hour, 0, time.Hour},
			{time.Minute, time.Minute, 30 * time.Second, time.Minute + 31*time.Second},
			{time.Minute, 2 * time.Minute, 30 * time.Second, 2 * time.Minute},
		} {
			l := b.limiter(overall, 5, tc.interval, rratelimiter.WithKeepAlive(tc.keepAlive))
			if tc.resolution > 0 {
				l = l.coarse(tc.resolution)
			}
			lives := func(what string, want time.Duration, keys ...string) {
				b.Helper()
				for _, key := range keys {
					if ttl := b.look.PTTL(b.Context(), key).Val(); ttl > want ||
						ttl < want-500*time.Millisecond {
						b.Errorf("%+v: after %s %s lives for %v, want %v", tc, what, key, ttl, want)
					}
				}
			}
			plain := max(tc.keepAlive, tc.interval+time.Second)
			lives("SetRate", tc.keepAlive, l.Name())
			all := []string{l.Name(), l.value(), l.permits()}
			l.takes(3)
			lives("an acquire", tc.want, all...)
			if ok, err := l.TryAcquire(b.Context(), 4, 0); ok || err != nil {
				b.Fatal(ok, err)
			}
			lives("a refusal", tc.want, all...)
			l.gives(1)
			lives("a release", plain, all...)
			_, err := l.Delete(b.Context())
			b.want(err)
			_, err = l.TrySetRate(b.Context(), overall, 5, tc.interval,
				rratelimiter.WithKeepAlive(tc.keepAlive))
			b.want(err)
			lives("TrySetRate", tc.keepAlive, l.Name())
		}
	})
}

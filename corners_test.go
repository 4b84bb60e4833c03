package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// The specs here go into the corners of the scripts: many records, odd bytes, and
// what others have left behind.

// A limiter that did not set the rate itself learns the type from Redis.
func TestAStrangerFindsItsOwnKeys(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		l := b.limiter(perClient, 3, time.Second)
		c := b.newClient()
		other := &limiter{c.RateLimiter(l.Name()), b}
		other.takes(2)
		other.keeps(3, l.value()+":"+c.ID(), l.permits()+":"+c.ID())
		if n := b.look.Exists(ctx, l.value(), l.permits()).Val(); n != 0 {
			b.Fatal("the shared keys were used for PER_CLIENT")
		}
	})
}

// There are more records than one look takes. Every byte of the permits counts.
func TestThousandsOfRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		const rate = 1 << 40
		l := b.limiter(overall, rate, time.Second)
		sum := int64(0)
		for i := range 2500 {
			n := uint32(i)<<8 | 1
			sum += int64(n)
			permits := string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
			l.record(b.now, fmt.Sprintf("\x10%016d", i)+permits)
		}
		l.has(rate - sum)
		l.takes(1)
		l.keeps(rate, l.value(), l.permits())
	})
}

// A value that is too low is put right by the records that count, and not by those
// that have expired.
func TestAValueTooLowIsPutRight(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 100, time.Second)
		l.takes(7) // will have expired
		b.now += 500
		for range 12 { // more than are rebuilt in any case
			l.takes(1)
		}
		b.now += 500
		b.set(l.value(), -50)
		l.refused(89, 500*time.Millisecond)
		l.keeps(100, l.value(), l.permits())
		l.has(88)
		l.takes(88)
	})
}

// With many records the value is added to, and walked once an interval.
func TestManyRecordsAreRebuiltOnceAnInterval(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1000, time.Second)
		for range 40 {
			l.takes(5)
			b.now += 25
		}
		b.set(l.value(), 700) // 800 would be right: 100 too low
		b.now += 5            // one record has expired, none of the next interval
		l.takes(1)
		if v := b.look.Get(b.Context(), l.value()).Val(); v != "704" {
			b.Fatalf("value %s, want 704: what expired is added, nothing is walked", v)
		}
		for range 40 {
			b.now += 25
			l.takes(1)
		}
		l.keeps(1000, l.value(), l.permits())
	})
}

// A withdraw takes back all records of a request, also those of 2^32 and more.
func TestAllRecordsAreWithdrawn(t *testing.T) {
	n := newLine(t, 1<<34, time.Hour)
	n.l.takes(1)
	n.l.gives(1)
	ctx := cancelOnError(t.Context(), n.rdb)
	n.proxy.SwallowReply(1)
	if ok, err := n.l.TryAcquire(ctx, 1<<33, 0); ok || !errors.Is(err, context.Canceled) {
		t.Fatal(ok, err)
	}
	n.untilOut(0)
	n.l.has(1 << 34)
}

// A withdraw goes on until Redis is there again.
func TestAWithdrawWaitsForRedis(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	var failed atomic.Int64
	n.rdb.AddHook(hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if err != nil {
			failed.Add(1)
		}
		return err
	}))
	ctx := cancelOnError(t.Context(), n.rdb)
	n.proxy.SwallowReply(1)
	n.proxy.Down()
	_, err := n.l.TryAcquire(ctx, 10, 0)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	already := failed.Load()
	until(t, func() bool { return failed.Load() > already+1 }) // it tries again in the background, in vain
	if out := n.out(n.l.permits()); out != 10 {
		t.Fatalf("%d permits are out, and Redis could not be reached", out)
	}
	n.proxy.Up()
	n.untilOut(0)
}

// Sessions of requests that may still be sent again are kept.
func TestSessionsOfLiveClientsStay(t *testing.T) {
	n := newLine(t, 1000, time.Hour)
	for range 70 {
		n.takesAndGives()
	}
	n.now += 30_000
	n.takesAndGives()
	if fields := n.l.fields(); len(fields) != 72 { // with that of the line
		t.Fatalf("%d fields, want 72: sessions younger than a minute were swept", len(fields))
	}
}

// TTL of an own pair outlives its records, whatever the interval.
func TestAnOwnPairOutlivesItsRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		l := b.limiter(perClient, 5, 24*time.Hour)
		l.takes(1)
		for _, key := range []string{l.value() + ":" + b.client.ID(), l.permits() + ":" + b.client.ID()} {
			if ttl := b.look.PTTL(ctx, key).Val(); ttl <= 24*time.Hour {
				b.Fatalf("%s lives for %v, shorter than its record counts", key, ttl)
			}
		}
		b.want(yes(l.Expire(ctx, time.Hour)))
		b.want(yes(l.ClearExpire(ctx)))
		for _, key := range []string{l.value() + ":" + b.client.ID(), l.permits() + ":" + b.client.ID()} {
			if ttl := b.look.PTTL(ctx, key).Val(); ttl <= 24*time.Hour {
				b.Fatalf("%s lives for %v after ClearExpire", key, ttl)
			}
		}
	})
}

// keepAliveTime must be a whole number, too. A value beyond 2^53 is rebuilt. A
// score below 0 has expired.
func TestOddStateOfOthers(t *testing.T) {
	onBoth(t, func(b *bench) {
		for name, value := range map[string]string{"keepAliveTime": "1.5", "interval": "1e300"} {
			l := b.limiter(overall, 5, time.Second)
			b.want(b.look.HSet(b.Context(), l.Name(), name, value).Err())
			if _, err := l.TryAcquire(b.Context(), 1, 0); !errors.Is(err, rratelimiter.ErrBadState) {
				b.Errorf("%s %s: %v", name, value, err)
			}
		}
		l := b.limiter(overall, 5, time.Second)
		l.takes(2)
		b.set(l.value(), "-99999999999999999999")
		l.takes(1)
		l.keeps(5, l.value(), l.permits())
		l.record(-5, "\x10aaaaaaaaaaaaaaaa\x04\x00\x00\x00")
		l.has(2)
		l.takes(1)
		l.keeps(5, l.value(), l.permits())
	})
}

// A record that is shrunk keeps its time and its bytes before the permits, and
// holds the rest, in all four bytes.
func TestAShrunkRecord(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1<<40, time.Second)
		l.takes(0x0d0c0b0b)
		before := b.look.ZRangeWithScores(b.Context(), l.permits(), 0, -1).Val()[0]
		b.now += 10
		l.gives(1)
		after := b.look.ZRangeWithScores(b.Context(), l.permits(), 0, -1).Val()[0]
		m := before.Member.(string)
		if want := m[:17] + "\x0a\x0b\x0c\x0d"; after.Member != want || after.Score != before.Score {
			b.Fatalf("% x at %.0f, want % x at %.0f", after.Member, after.Score, want, before.Score)
		}
	})
}

// A value that others left too high does not rise above the rate.
func TestAReleaseOnAnInflatedValue(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(4)
		l.takes(4)
		b.set(l.value(), 8)
		l.gives(5)
		if v := b.look.Get(b.Context(), l.value()).Val(); v != "10" {
			b.Fatalf("value %s, want 10", v)
		}
	})
}

// WithKeepState counts what counts: neither what has expired, nor what another
// type has left.
func TestKeepStateCountsWhatCounts(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		l := b.limiter(overall, 10, time.Second)
		l.takes(4)
		b.now += 1000
		b.want(l.SetRate(ctx, overall, 10, time.Second, rratelimiter.WithKeepState()))
		if v := b.look.Get(ctx, l.value()).Val(); v != "10" {
			b.Fatalf("value %s, want 10: the 4 have expired", v)
		}
		b.want(l.SetRate(ctx, perClient, 10, time.Second))
		b.set(l.value(), 3) // stale
		l.record(b.now, "\x10aaaaaaaaaaaaaaaa\x07\x00\x00\x00")
		b.want(l.SetRate(ctx, overall, 10, time.Second, rratelimiter.WithKeepState()))
		l.has(10)

		l = b.limiter(overall, 0, 0) // no rate, but leftovers
		b.set(l.value(), 3)
		l.record(b.now, "\x10aaaaaaaaaaaaaaaa\x07\x00\x00\x00")
		b.want(l.SetRate(ctx, overall, 10, time.Second, rratelimiter.WithKeepState()))
		l.has(10)

		b.want(b.look.Del(ctx, l.permits()).Err())
		b.want(b.look.RPush(ctx, l.permits(), "x").Err())
		err := l.SetRate(ctx, overall, 7, time.Second, rratelimiter.WithKeepState())
		if !errors.Is(err, rratelimiter.ErrBadState) || b.look.HGet(ctx, l.Name(), "rate").Val() != "10" {
			b.Fatal(err, b.look.HGetAll(ctx, l.Name()).Val())
		}
		wantText(b, err, l.permits(), "zset")
	})
}

// A time to live counts from the moment when the rate is set. From then on leftovers
// are gone.
func TestSettingARateSetsTheLife(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		keep := rratelimiter.WithKeepAlive(time.Minute)
		for what, set := range map[string]func(l *limiter) error{
			"TrySetRate": func(l *limiter) error {
				return yes(l.TrySetRate(ctx, overall, 5, time.Second, keep))
			},
			"SetRate": func(l *limiter) error { return l.SetRate(ctx, overall, 5, time.Second, keep) },
		} {
			l := b.limiter(overall, 0, 0)
			b.set(l.value(), 3)
			l.record(b.now, "\x10aaaaaaaaaaaaaaaa\x02\x00\x00\x00")
			b.want(set(l))
			if ttl := b.look.PTTL(ctx, l.Name()).Val(); ttl <= 0 {
				b.Errorf("%s with keep alive: lives for %v before the first acquire", what, ttl)
			}
			if n := b.look.Exists(ctx, l.value(), l.permits()).Val(); n != 0 {
				b.Errorf("%s: %d leftovers, which Java would believe", what, n)
			}
		}
		l := b.limiter(overall, 0, 0)
		b.want(b.look.HSet(ctx, l.Name(), "rate", 5).Err())
		b.want(b.look.PExpire(ctx, l.Name(), time.Hour).Err())
		if ok, err := l.TrySetRate(ctx, overall, 5, time.Second); !ok || err != nil {
			b.Fatal(ok, err)
		}
		if ttl := b.look.PTTL(ctx, l.Name()).Val(); ttl != -1 {
			b.Errorf("half a hash had a time to live, and the new limiter kept it: %v", ttl)
		}
		l = b.limiter(perClient, 5, time.Second)
		l.takes(1)
		b.want(l.SetRate(ctx, perClient, 6, time.Second, rratelimiter.WithKeepState()))
		for _, key := range []string{l.value(), l.permits()} {
			if ttl := b.look.PTTL(ctx, key+":"+b.client.ID()).Val(); ttl <= 0 {
				b.Errorf("our own %s lives for %v after SetRate with state", key, ttl)
			}
		}
	})
}

// More records than one look takes are released at once.
func TestReleaseInASea(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1000, time.Second)
		for range 200 {
			l.takes(2)
			b.now++
		}
		l.gives(301)
		l.has(1000 - 99)
		if got := l.records(l.permits()); len(got) != 50 || got[49] != 1 {
			b.Fatal(fmt.Sprint(got))
		}
	})
}

// With many records, more permits in them than the value allows for mean that the
// value is wrong.
func TestMoreRecordsThanTheValueAllows(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 30, time.Second)
		for range 20 {
			l.takes(1)
			b.now += 10
		}
		b.set(l.value(), 25) // Java: release(15)
		b.now += 800         // the first one has expired
		l.takes(1)
		l.keeps(30, l.value(), l.permits())
		l.has(10)
	})
}

// When all have expired at once, what the value said before does not matter.
func TestManyRecordsExpireAtOnce(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 100, time.Second)
		for range 20 {
			l.takes(1)
		}
		b.set(l.value(), 10) // too low by 70
		b.now += 1000
		l.has(100)
		l.takes(100)
	})
}

// The timeout bounds each sleep, and not only the first one.
func TestASecondSleepEndsWithTheTimeout(t *testing.T) {
	inBubble(t, 1, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis) {
		took(t, l, 1, 0, 0)
		start := time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			members, err := m.ZMembers("{l}:permits")
			if err == nil {
				_, err = m.ZAdd("{l}:permits", float64(start.Add(900*time.Millisecond).UnixMilli()),
					members[0])
			}
			if err != nil {
				t.Error(err)
			}
		})
		ok, err := l.TryAcquire(t.Context(), 1, 1500*time.Millisecond)
		if got := time.Since(start); ok || err != nil || got != 1500*time.Millisecond {
			t.Fatalf("%v, %v after %v; want false after 1.5s", ok, err, got)
		}
	})
}

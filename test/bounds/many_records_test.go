package bounds_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// expired returns a limiter of 1s with a number of expired records of one permit,
// others that count, and permits left besides.
func expired(b *Bench, records, others int, left int64) *Limiter {
	b.Helper()
	l := b.NewLimiter(Overall, int64(records+others)+left, time.Second)
	l.Fill(b.Now-2000, 100, records, 1)
	l.Fill(b.Now-500, 100, others, 1)
	b.SetKey(l.ValueKey(), left)
	return l
}

// Whatever is asked while thousands have expired, the results are those of a
// ledger: never a false no, never too much.
func TestAnswersAreExactWhileThousandsHaveExpired(t *testing.T) {
	for seed := range uint64(2) {
		OnBoth(t, func(b *Bench) {
			random := rand.New(rand.NewPCG(seed, 1))
			const records, rate = 6_000, 7_000
			l := b.NewLimiter(Overall, rate, time.Second)
			var exact grants.Grants
			l.Fill(b.Now, 5, records, 1)
			for i := range int64(records) {
				exact = append(exact, grants.Grant{At: b.Now + i/5, Permits: 1})
			}
			b.SetKey(l.ValueKey(), rate-records)
			b.Now += 1200
			for range 30 {
				b.Now += random.Int64N(80)
				n := 1 + random.Int64N(200)
				if random.IntN(4) == 0 {
					n = 1 + random.Int64N(rate)
				}
				want := exact.Wait(b.Now, rate, 1000, n)
				r, err := l.Allow(b.Context(), n)
				if err != nil || r.Allowed != (want == 0) || r.RetryAfter != want && l.Size() < 5000 {
					b.Fatalf("seed %d: %d at %d: %+v, %v; want a wait of %v", seed, n, b.Now, r, err, want)
				}
				if r.Allowed {
					exact = append(exact, grants.Grant{At: b.Now, Permits: n})
				}
				l.Keeps(rate, l.ValueKey(), l.PermitsKey())
			}
		})
	}
}

// The record that a partial release leaves gets new random bytes where another record has them. Records
// crafted to have each of the next ones do not make the script count.
func TestCraftedRecordsDoNotMakeARecordCountLong(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	const rate, crafted = 1_000_000, 20_000
	l := b.NewLimiter(Overall, rate, time.Minute)
	l.Takes(10)
	member := []byte(l.Members()[0])
	end := len(member) - 4
	binary.LittleEndian.PutUint32(member[end:], 4)
	var random [4]byte
	copy(random[:], member[end-3:end])
	first := binary.LittleEndian.Uint32(random[:])
	pipe := b.Look.Pipeline()
	for i := range uint32(crafted) {
		binary.LittleEndian.PutUint32(random[:], first+i)
		copy(member[end-3:end], random[:3])
		pipe.ZAdd(b.Context(), l.PermitsKey(), redis.Z{Score: float64(b.Now - 1000), Member: string(member)})
	}
	redistest.Must(pipe.Exec(b.Context()))(t)
	b.SetKey(l.ValueKey(), rate-10-4*crafted)

	b.Now += 123 // the step depends on the clock
	before := redistest.Calls(t, b.Look, "zadd")
	l.Gives(6)
	if n := redistest.Calls(t, b.Look, "zadd") - before; n > 10 {
		t.Errorf("a release sent ZADD %d times", n)
	}
	l.HasTaken(4 + 4*crafted)
}

// B16: with 100,000 expired records no call of a real server looks at more than its share.
func TestNoCallBlocksRedis(t *testing.T) {
	const records = 100_000
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	b.Want(b.Look.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	for _, others := range []int{0, 1} {
		l := expired(b, records, others, 100)
		b.Want(b.Look.SlowLogReset(t.Context()).Err())
		last := l.Size()
		take := func() { l.Takes(1) }
		ask := []func(){take, func() { l.Gives(1) }, func() { b.Want(ErrOf(l.Peek(t.Context()))) }, take}
		for i := range 8 {
			before := redistest.Calls(t, b.Look, "zremrangebyrank")
			ask[i%len(ask)]()
			size, removals := l.Size(), redistest.Calls(t, b.Look, "zremrangebyrank")-before
			if last-size > 1_001*max(1, removals) && (others > 0 || size > 2) {
				t.Fatalf("%d records: %d removals have left %d of %d", records, removals, size, last)
			}
			last = size
		}
		ok, err := l.TryAcquire(t.Context(), 20_000, 0)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		l.Keeps(records+int64(others)+100, l.ValueKey(), l.PermitsKey())
		longest := time.Duration(0)
		for _, entry := range b.Look.SlowLogGet(t.Context(), -1).Val() {
			if strings.EqualFold(entry.Args[0], "evalsha") {
				longest = max(longest, entry.Duration)
			}
		}
		if longest == 0 {
			t.Error("the slow log has no script")
		}
		t.Logf("%d expired records, %d that count: the longest script took %v", records, others, longest)
	}
}

// A limiter that ends at once leaves its records, however many, to another thread of Redis. The command that
// sets a time would remove them itself.
func TestALimiterThatEndsAtOnceIsUnlinked(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	ctx := t.Context()
	for what, end := range map[string]func(l *Limiter) error{
		"Expire":   func(l *Limiter) error { return Yes(l.Expire(ctx, 0)) },
		"ExpireAt": func(l *Limiter) error { return Yes(l.ExpireAt(ctx, time.Now().Add(-time.Second))) },
	} {
		l := expired(b, 1_000, 1, 10)
		b.Want(b.Look.ConfigResetStat(ctx).Err())
		b.Want(end(l))
		stats := b.Look.Info(ctx, "commandstats").Val()
		if strings.Contains(stats, "cmdstat_pexpire") || !strings.Contains(stats, "cmdstat_unlink:") {
			t.Errorf("%s: the commands were\n%s", what, stats)
		}
		if n := b.Look.Exists(ctx, l.Name(), l.ValueKey(), l.PermitsKey()).Val(); n != 0 {
			t.Errorf("%s: %d keys are left", what, n)
		}
	}
}

// Thousands of reservations, which are not joined, count against a rate with another interval.
func TestManyReservationsCountAgainstAnotherInterval(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10_000, time.Second)
		pipe := b.Look.Pipeline()
		for i := range 2500 {
			pipe.ZAdd(b.Context(), l.PermitsKey(),
				redis.Z{Score: float64(b.Now - 10),
					Member: fmt.Sprintf("\x10\xd2Gr%013d\x03\x00\x00\x00", i)})
		}
		redistest.Must(pipe.Exec(b.Context()))(t)
		r, err := l.WithRate(6000, 3*time.Second).Allow(b.Context(), 1)
		if err != nil || r.Allowed {
			t.Errorf("%v, %v", r, err)
		}
	})
}

// A call that finds a limiter whose value is lost beside thousands of records sends some ten scripts.
// Whichever of them its context ends at, nothing stays taken, and the next call is granted.
func TestAContextEndsWhileRecordsAreJoined(t *testing.T) {
	const records, rate = 3000, 10_000
	var sent, endsAt atomic.Int64
	var end atomic.Pointer[context.CancelFunc]
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	b := NewBench(t, rdb, s.Admin())
	b.Now++ // a ms in which no call counts the records: scripts/parts/plain.lua
	rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") && sent.Add(1) == endsAt.Load() {
			(*end.Load())()
		}
		return err
	}))
	for name, do := range map[string]func(ctx context.Context, l *Limiter) error{
		"TryAcquire": func(ctx context.Context, l *Limiter) error {
			return Yes(l.TryAcquire(ctx, 5, time.Second))
		},
		"Reserve": func(ctx context.Context, l *Limiter) error { return ErrOf(l.Reserve(ctx, 5, 0)) },
		"SetRate": func(ctx context.Context, l *Limiter) error {
			return l.SetRate(ctx, Overall, rate, time.Hour, rratelimiter.WithKeepState())
		},
		"a Group": func(ctx context.Context, l *Limiter) error {
			other := b.NewLimiter(Overall, 5, time.Hour)
			return Yes(b.Client.All(l.RateLimiter, other.RateLimiter).TryAcquire(ctx, 5, 0))
		},
	} {
		err := context.Canceled
		for at := int64(1); err != nil; at++ {
			l := b.NewLimiter(Overall, rate, time.Hour)
			l.Fill(b.Now-400, 10, records, 1)
			ctx, cancel := context.WithCancel(t.Context())
			end.Store(&cancel)
			endsAt.Store(at)
			sent.Store(0)
			err = do(ctx, l)
			endsAt.Store(0)
			cancel()
			if errors.Is(err, context.Canceled) {
				l.UntilOut(records)
			} else if err != nil {
				t.Fatalf("%s, ended at script %d: %v", name, at, err)
			}
			l.Takes(1)
		}
	}
}

package bounds_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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

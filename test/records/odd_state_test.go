package records_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here go into the corners of the scripts: many records, odd bytes, and
// the leftovers of other clients.

func TestAnOwnPairOutlivesItsRecords(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		l := b.NewLimiter(PerClient, 5, 24*time.Hour)
		l.Takes(1)
		ownPair := []string{l.ValueKey() + ":" + b.Client.ID(), l.PermitsKey() + ":" + b.Client.ID()}
		b.Lives(24*time.Hour+1, Ever, ownPair...)
		b.Want(Yes(l.Expire(ctx, time.Hour)))
		b.Want(Yes(l.ClearExpire(ctx)))
		b.Lives(24*time.Hour+1, Ever, ownPair...)
	})
}

// A record that is shrunk keeps its time and its bytes before the permits, and
// holds the rest, in all four bytes.
func TestAShrunkRecordKeepsItsTimeAndBytes(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 1<<40, time.Second)
		l.Takes(0x0d0c0b0b)
		before := b.Look.ZRangeWithScores(b.Context(), l.PermitsKey(), 0, -1).Val()[0]
		b.Now += 10
		l.Gives(1)
		after := b.Look.ZRangeWithScores(b.Context(), l.PermitsKey(), 0, -1).Val()[0]
		m := before.Member.(string)
		if want := m[:17] + "\x0a\x0b\x0c\x0d"; after.Member != want || after.Score != before.Score {
			b.Fatalf("% x at %.0f, want % x at %.0f", after.Member, after.Score, want, before.Score)
		}
	})
}

// WithKeepState does not count what another type has left, and sets nothing where a key is of another kind.
func TestKeepStateCountsWhatCounts(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		l := b.NewLimiter(PerClient, 10, time.Second)
		b.SetKey(l.ValueKey(), 3) // stale
		l.Record(b.Now, "\x10aaaaaaaaaaaaaaaa\x07\x00\x00\x00")
		b.Want(l.SetRate(ctx, Overall, 10, time.Second, rratelimiter.WithKeepState()))
		l.Has(10)
		b.Want(b.Look.RPush(ctx, l.PermitsKey(), "x").Err())
		err := l.SetRate(ctx, Overall, 7, time.Second, rratelimiter.WithKeepState())
		WantErr(b, err, rratelimiter.ErrBadState, l.PermitsKey(), "zset")
		if rate := b.Look.HGet(ctx, l.Name(), "rate").Val(); rate != "10" {
			b.Errorf("the rate is %s", rate)
		}
	})
}

func TestSettingARateStartsTheTimeToLive(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		l := b.NewLimiter(Overall, 0, 0)
		b.Want(b.Look.HSet(ctx, l.Name(), "rate", 5).Err())
		b.Want(b.Look.PExpire(ctx, l.Name(), time.Hour).Err())
		b.Want(Yes(l.TrySetRate(ctx, Overall, 5, time.Second)))
		b.Lives(-1, -1, l.Name())
		l = b.NewLimiter(PerClient, 5, time.Second)
		l.Takes(1)
		b.Want(l.SetRate(ctx, PerClient, 6, time.Second, rratelimiter.WithKeepState()))
		for _, key := range []string{l.ValueKey(), l.PermitsKey()} {
			b.Lives(1, Ever, key+":"+b.Client.ID())
		}
	})
}

package bounds_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Records may be ahead by right: those of a lease, and those of clocks that differ a little. They stay where
// they are. A client with a clock of its own moves none.
func TestRecordsAheadByRightStayWhereTheyAre(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		b.Client = rratelimiter.New(b.RDB)
		t.Cleanup(func() { _ = b.Client.Close() })
		clock := func() int64 { return b.Look.Time(b.Context()).Val().UnixMilli() }
		leased, plain := "\x10\xd2GoRLeasexxxxxxx\x01\x00\x00\x00", "\x10abcdefghijklmnop\x01\x00\x00\x00"
		for _, tc := range []struct {
			interval time.Duration
			member   string
			ahead    int64
			stays    bool
		}{
			{time.Minute, plain, 900, true},
			{time.Minute, plain, 9000, false},
			{5 * time.Second, plain, 400, true},
			{5 * time.Second, plain, 9000, false},
			{time.Minute, leased, 59_000, true},
			{time.Minute, leased, 80_000, false},
			{time.Minute, "\x10\xd2GoRateLimitxxxx\x01\x00\x00\x00", 59_000, false}, // by an older Go
			{time.Minute, "\x03abc\x01\x00\x00\x00", 59_000, true},
			{time.Minute, "\x03abc\x01\x00\x00\x00", 80_000, false},
		} {
			now := clock()
			l := b.NewLimiter(Overall, 5, tc.interval)
			l.Record(now+tc.ahead, tc.member)
			b.SetKey(l.ValueKey(), 4)
			l.Takes(1)
			b.Want(No(l.TryAcquire(b.Context(), 5, 0)))
			score, err := b.Look.ZScore(b.Context(), l.PermitsKey(), tc.member).Result()
			b.Want(err)
			if stays := int64(score) == now+tc.ahead; stays != tc.stays ||
				!stays && score > float64(now+8000) {
				b.Errorf("% x, %d ms ahead, interval %v: now %.0f", tc.member, tc.ahead, tc.interval,
					score-float64(now))
			}
		}
		b.Now = clock()
		far := b.Now + time.Hour.Milliseconds()
		b.Client = b.NewClient()
		l := b.NewLimiter(Overall, 5, time.Minute)
		l.Record(far, plain)
		l.Record(far, leased)
		b.SetKey(l.ValueKey(), 3)
		l.Refused(4, time.Minute+time.Second)
		l.Refused(5, 2*time.Minute)
		l.Gives(0)
		if out := b.Look.ZCount(b.Context(), l.PermitsKey(), fmt.Sprint(far), "+inf").Val(); out != 2 {
			b.Error("a client with a clock of its own has moved records of others")
		}
	})
}

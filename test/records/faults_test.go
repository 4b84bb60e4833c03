package records_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// The specs of this file reproduce the faults of Redisson's limiter, by their
// number, and say what happens here instead.

// B5: without WithClock the time is the server's, whatever the clock of the process says.
func TestB5TimeIsTheServers(t *testing.T) {
	m := redistest.Mini(t)
	m.SetTime(time.UnixMilli(1_234_567_890_123))
	b := NewBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
	l := b.Wrap(NewClient(t, b.RDB, rratelimiter.WithClock(time.Now), rratelimiter.WithClock(nil)).
		RateLimiter(redistest.Name(t)))
	b.Want(l.SetRate(t.Context(), Overall, 1, time.Second))
	l.Takes(1)
	z := b.Look.ZRangeWithScores(t.Context(), l.PermitsKey(), 0, -1).Val()
	if z[0].Score != 1_234_567_890_123 {
		t.Fatalf("record at %.0f, want the server's 1234567890123", z[0].Score)
	}
	m.SetTime(time.UnixMilli(1_234_567_891_122))
	l.Refused(1, time.Millisecond)
	m.SetTime(time.UnixMilli(1_234_567_891_123))
	l.Takes(1)
}

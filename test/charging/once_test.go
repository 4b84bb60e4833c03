package charging_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// The first call of a Keyed comes so late that it creates the limiter after its permits were
// taken back. They are taken back again.
func TestAFirstCallThatComesLateKeepsNothing(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	for what, acquire := range map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
		"alone": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return Yes(l.TryAcquire(ctx, 5, 0))
		},
		"in a Group": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return Yes(n.Client.All(l).Amounts(5).TryAcquire(ctx, 1, 0))
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := n.Client.Keyed(redistest.Name(t), 10, time.Hour).RateLimiter("a")
			release := n.Proxy.HoldNext(1, IsScript)
			ctx := TimeLimit(t, 100*time.Millisecond)
			WantErr(t, acquire(ctx, l), context.DeadlineExceeded)
			// Longer than go-redis waits. The first withdrawal finds no limiter.
			time.Sleep(1600 * time.Millisecond)
			release()
			UntilWithin(t, 20*time.Second, func() bool {
				left, err := l.AvailablePermits(t.Context())
				return err == nil && left == 10
			})
		})
	}
}

// One acquire is one EVALSHA of three keys and one reply.
func TestOneAcquireIsOneRoundTrip(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	_, _, requests, replies := n.Proxy.Stats()
	var names []string
	n.Proxy.SwallowReplyTo(1, func(args []string) bool {
		names = append(names, args[0], args[2])
		return false
	})
	n.Takes(2)
	n.Takes(8)
	NoError(t, No(n.TryAcquire(t.Context(), 1, 0)))
	_, _, requests2, replies2 := n.Proxy.Stats()
	if requests2-requests != 3 || replies2-replies != 3 {
		t.Fatalf("3 acquires were %d requests and %d replies", requests2-requests, replies2-replies)
	}
	if len(names) != 6 {
		t.Fatalf("sent %q, want three commands", names)
	}
	for i := 0; i < len(names); i += 2 {
		if !strings.EqualFold(names[i], "evalsha") || names[i+1] != "3" {
			t.Fatalf("sent %q", names)
		}
	}
}

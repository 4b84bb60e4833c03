package charging_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// One acquire is one EVALSHA of three keys.
func TestOneAcquireIsOneRoundTrip(t *testing.T) {
	n := NewProxied(t, 10, time.Hour)
	seen := Failing(n.RDB)
	n.Takes(10)
	NoError(t, No(n.TryAcquire(t.Context(), 1, 0)))
	if len(seen.Sent) != 2 || seen.Sent[1][0] != "evalsha" || seen.Sent[1][2] != 3 {
		t.Fatalf("sent %q, want one EVALSHA each", seen.Sent)
	}
}

func TestADialThatTimesOutEndsNoContext(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Nanosecond}).DialContext(ctx, network, addr)
		}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := rratelimiter.New(rdb)
	defer c.Close()
	for _, err := range []error{
		c.RateLimiter("l").Acquire(context.Background(), 1),
		ErrOf(c.RateLimiter("l").Peek(context.Background())),
	} {
		WantErr(t, err, rratelimiter.ErrNoAnswer)
	}
}

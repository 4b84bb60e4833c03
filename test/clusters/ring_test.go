package clusters_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A Ring moves the keys of a shard that fails its heartbeat to other shards, where they are new: a limiter
// starts full there (docs/operations.md). A HeartbeatFn that is always true keeps the limiter on its shard.
func TestAShardOfARingThatIsAwayMovesItsLimiters(t *testing.T) {
	const rate = 5
	for what, stays := range map[string]bool{"the limiter moves and starts full": false, "it stays": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting
			shards := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
			opts := &redis.RingOptions{
				Addrs:              map[string]string{"one": shards[0].Addr, "two": shards[1].Addr},
				HeartbeatFrequency: 10 * time.Millisecond,
				ReadTimeout:        100 * time.Millisecond,
			}
			if stays {
				opts.HeartbeatFn = func(context.Context, *redis.Client) bool { return true }
			}
			ring := redis.NewRing(opts)
			c := rratelimiter.New(ring)
			t.Cleanup(func() { _, _ = c.Close(), ring.Close() })
			l := c.Keyed(redistest.Name(t), rate, time.Hour).For("user")
			NoError(t, Yes(l.TryAcquire(t.Context(), rate, 0)))
			WantErr(t, l.Rename(t.Context(), "elsewhere"), rratelimiter.ErrInvalidArgument)
			home := shards[0]
			if home.Admin().Exists(t.Context(), l.Name()).Val() == 0 {
				home = shards[1]
			}
			thaw := home.Freeze(t)
			if stays {
				ok, err := l.TryAcquire(t.Context(), 1, 0)
				if ok || !errors.Is(err, rratelimiter.ErrNoAnswer) {
					t.Error(ok, err, "want ErrNoAnswer")
				}
			} else {
				Until(t, func() bool { return ring.Len() == 1 })
				NoError(t, Yes(l.TryAcquire(t.Context(), rate, 0)))
				NoError(t, No(l.TryAcquire(t.Context(), 1, 0)))
			}
			thaw()
			Until(t, func() bool { return ring.Len() == 2 && home.Admin().Ping(t.Context()).Err() == nil })
			var ok bool
			var err error
			Until(t, func() bool { ok, err = l.TryAcquire(t.Context(), 1, time.Second); return err == nil })
			NoError(t, No(ok, err))
		})
	}
}

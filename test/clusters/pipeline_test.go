package clusters_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A pipelines client sends the scripts of callers that come at once in one pipeline, as in the docs.
type pipelines struct {
	*redis.Client
	auto *redis.AutoPipeliner
}

func (p pipelines) Process(ctx context.Context, cmd redis.Cmder) error {
	return p.auto.Process(ctx, cmd)
}

// Where scripts go through an AutoPipeliner, a lost reply is charged once, a caller leaves in
// time, and what it took comes back.
func TestAClientThatSendsPipelinesIsChargedOnce(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "Egx")
	proxy := redistest.StartProxy(t, s.Addr)
	rdb := s.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr })
	auto, err := rdb.AutoPipeline()
	NoError(t, err)
	t.Cleanup(func() { _ = auto.Close() })
	c := NewClient(t, pipelines{rdb, auto})
	t.Run("many limiters at once", func(t *testing.T) {
		users := c.Keyed(redistest.Name(t), 3, time.Hour)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if _, err := users.TryAcquire(t.Context(), strconv.Itoa(i%25), 1, 0); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range 25 {
			n, err := users.RateLimiter(strconv.Itoa(i)).AvailablePermits(t.Context())
			if n != 0 || err != nil {
				t.Errorf("%d are left of 3, and 4 were asked for: %v", n, err)
			}
		}
	})
	l := c.RateLimiter(redistest.Name(t))
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	left := func(want int64) bool {
		n, err := l.AvailablePermits(t.Context())
		return err == nil && n == want
	}
	t.Run("a lost reply", func(t *testing.T) {
		NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
		before := proxy.Swallowed()
		proxy.SwallowReplyTo(1, IsScript)
		NoError(t, Yes(l.TryAcquire(t.Context(), 2, 0)))
		if lost := proxy.Swallowed() - before; lost != 1 || !left(7) {
			t.Errorf("%d replies were lost, and 7 permits are not left", lost)
		}
	})
	t.Run("a caller that leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		held := proxy.Held()
		release := proxy.HoldNext(1, IsScript)
		done := make(chan error, 1)
		go func() {
			_, err := l.TryAcquire(ctx, 5, time.Hour)
			done <- err
		}()
		Until(t, func() bool { return proxy.Held() > held })
		cancel()
		WantErr(t, <-done, context.Canceled)
		release()
		Until(t, func() bool { return left(7) })
	})
	t.Run("listeners", func(t *testing.T) { hearsOfDelete(t, l) })
}

// hearsOfDelete expects a listener to hear that the limiter was deleted.
func hearsOfDelete(t *testing.T, l *rratelimiter.RateLimiter) {
	t.Helper()
	deleted := make(chan string, 1)
	stop, err := l.OnDeleted(t.Context(), func(name string) { deleted <- name })
	NoError(t, err)
	defer stop()
	NoError(t, ErrOf(l.Delete(t.Context())))
	if name := Receive(t, deleted); name != l.Name() {
		t.Errorf("deleted is %s, want %s", name, l.Name())
	}
}

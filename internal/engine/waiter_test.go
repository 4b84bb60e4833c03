package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/queue"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A queue exists as long as a caller needs it, and no longer.
func TestNobodyLeavesAQueueBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, redistest.MiniClient(t, redistest.Mini(t)))
		for _, name := range []string{"a", "b", "c"} {
			l := e.limiter(name)
			setRate(t, l, wire.Overall, 2, time.Second)
			for range 20 { // some together, most of them in line
				wanted := Want{Permits: 1, Timeout: queue.Forever}
				go func() { _, _ = l.Acquire(context.Background(), wanted) }()
			}
			synctest.Wait()
			if n := e.queues.Queues(); n != 1 {
				t.Errorf("%d queues while callers wait, want 1", n)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if _, err := l.Acquire(t.Context(), Want{Permits: 3, Timeout: time.Second}); err == nil {
				t.Error("3 of 2 permits were not refused")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = l.Acquire(ctx, Want{Permits: 2, Timeout: time.Hour})
			cancel()
			synctest.Wait()
			if n := e.queues.Queues(); n != 0 {
				t.Errorf("%d queues are left", n)
			}
		}
	})
}

package rratelimiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A new caller stands behind the arrivals, even if there is a line that it could join.
func TestNewcomersStandBehindTheFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(redistest.MiniClient(t, redistest.Mini(t)))
		l := c.RateLimiter("l")
		if err := l.SetRate(t.Context(), Overall, 1, time.Second); err != nil {
			t.Fatal(err)
		}
		first := c.newWaiter(t.Context(), want{permits: 1, timeout: forever})
		second := c.newWaiter(t.Context(), want{permits: 1, timeout: forever})
		q := l.enter()
		q.busy, q.rate = true, 1
		q.stand(first)
		q.arrivals.push(second)
		second.standing = arrived
		q.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = l.Acquire(ctx, 1) }()
		synctest.Wait()
		q.mu.Lock()
		if q.line.size != 1 || q.arrivals.size != 2 || q.arrivals.first != second {
			t.Errorf("%d in line and %d arrivals; want the new caller behind the first arrival",
				q.line.size, q.arrivals.size)
		}
		q.wanted()
		if q.line.size != 3 || q.line.first != first || first.next != second {
			t.Errorf("%d in line; want all three, in the order in which they came", q.line.size)
		}
		first.remove()
		second.remove()
		q.busy = false
		q.mu.Unlock()
		cancel()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// inUse is how many limiters of a Client have a queue.
func (c *Client) inUse() int {
	c.queuesMu.Lock()
	defer c.queuesMu.Unlock()
	return len(c.queues)
}

// A queue exists as long as a caller needs it, and no longer.
func TestNobodyLeavesAQueueBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		for _, name := range []string{"a", "b", "c"} {
			l := c.RateLimiter(name)
			if err := l.SetRate(t.Context(), Overall, 2, time.Second); err != nil {
				t.Fatal(err)
			}
			for range 20 { // some together, most of them in line
				go func() { _ = l.Acquire(context.Background(), 1) }()
			}
			synctest.Wait()
			if n := c.inUse(); n != 1 {
				t.Errorf("%d queues while callers wait, want 1", n)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if _, err := l.TryAcquire(t.Context(), 3, time.Second); err == nil {
				t.Error("3 of 2 permits were not refused")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = l.TryAcquire(ctx, 2, time.Hour)
			cancel()
			synctest.Wait()
			if n := c.inUse(); n != 0 {
				t.Errorf("%d queues are left", n)
			}
		}
	})
}

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A new caller stands behind the arrivals, even if there is a line that it could join.
func TestNewcomersStandBehindTheFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, redistest.MiniClient(t, redistest.Mini(t)))
		l := e.limiter("l")
		setRate(t, l, wire.Overall, 1, time.Second)
		first := e.queues.newWaiter(t.Context(), Want{Permits: 1, Timeout: Forever})
		second := e.queues.newWaiter(t.Context(), Want{Permits: 1, Timeout: Forever})
		q := e.queues.enter(l)
		q.busy, q.lastReply.rate = true, 1
		q.line.stand(first)
		q.arrivals.push(second)
		second.state = arrived
		q.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = l.Acquire(ctx, Want{Permits: 1, Timeout: Forever}) }()
		synctest.Wait()
		q.mu.Lock()
		if q.line.size != 1 || q.arrivals.size != 2 || q.arrivals.first != second {
			t.Errorf("%d in line and %d arrivals; want the new caller behind the first arrival",
				q.line.size, q.arrivals.size)
		}
		if !q.wanted() || q.arrivals.size != 2 {
			t.Errorf("%d arrivals after a question, want 2", q.arrivals.size)
		}
		q.lineUp()
		if q.line.size != 3 || q.line.first != first || first.next != second {
			t.Errorf("%d in line; want all three, in the order in which they came", q.line.size)
		}
		first.remove()
		second.remove()
		q.busy = false
		q.mu.Unlock()
		cancel()
		e.Close()
	})
}

// A queue exists as long as a caller needs it, and no longer.
func TestNobodyLeavesAQueueBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, redistest.MiniClient(t, redistest.Mini(t)))
		for _, name := range []string{"a", "b", "c"} {
			l := e.limiter(name)
			setRate(t, l, wire.Overall, 2, time.Second)
			for range 20 { // some together, most of them in line
				go func() { _, _ = l.Acquire(context.Background(), Want{Permits: 1, Timeout: Forever}) }()
			}
			synctest.Wait()
			if n := len(e.queues.all()); n != 1 {
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
			if n := len(e.queues.all()); n != 0 {
				t.Errorf("%d queues are left", n)
			}
		}
	})
}

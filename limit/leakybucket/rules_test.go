package leakybucket

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A process that was stopped resumes at its pace: turns that have passed do not come together, and later
// callers overtake none that wait.
func TestAStoppedProcessResumesAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := redistest.Must(Queue{10, time.Second, 50}.InMemory())(t)
		var turns atomic.Int64
		var all sync.WaitGroup
		waits := func() {
			all.Go(func() {
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				turns.Add(1)
			})
			synctest.Wait()
		}
		for range 41 {
			waits()
		}
		time.Sleep(1050 * time.Millisecond) // eleven turns
		err := l.form.Form.(form.Opened[line]).Do(t.Context(), "", func(l *line, _ int64) {
			l.last -= 4e6 // as if four seconds had passed
			l.crowd.mu.Lock()
			defer l.crowd.mu.Unlock()
			l.crowd.next = l.crowd.next.Add(-4 * time.Second)
			l.crowd.timer.Reset(0)
		})
		redistest.NoError(t, err)
		if r := formtest.Allow(t, l, 1, false); r.RetryAfter != 3*time.Second {
			t.Errorf("%+v", r)
		}
		waits() // the last one
		time.Sleep(50 * time.Millisecond)
		for i := range int64(31) {
			if n := turns.Load(); n != 12+i {
				t.Errorf("%d turns %d ms later, want %d", n, i*100, 12+i)
			}
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		formtest.Allow(t, l, 1, true)
	})
}

func TestATurnReturnedLateIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Queue{Rate: 10, Interval: time.Second, Capacity: 5}
		l := redistest.Must(form.OnRedis(q.waits, formtest.NewMini(t).Client, "name"))(t).One
		turn := func(want int64) form.Decision {
			_, d, err := l.Lend(t.Context(), "", 1)
			if err != nil || d.Retry != want {
				t.Errorf("%+v, %v; want a turn after %d µs", d, err, want)
			}
			return d
		}
		turn(0)
		late := turn(100_000)
		time.Sleep(250 * time.Millisecond)
		turn(0) // the line is empty
		redistest.NoError(t, l.Return(t.Context(), "", 1, late))
		time.Sleep(50 * time.Millisecond)
		turn(50_000)
	})
}

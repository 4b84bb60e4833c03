package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A control measures how late the machine makes all callers: no library can be more
// punctual. It has timers that do nothing else. And it asks the kernel how long threads
// of this process had work and no processor, for a thread that stands still holds up
// only some goroutines.
type control struct {
	stop chan struct{}
	all  sync.WaitGroup

	mu     sync.Mutex
	late   []span   // guarded by mu, and so are queued
	queued []queued // by time
}

// queued is how long all threads together have waited for a processor, as the kernel
// said between two moments.
type queued struct {
	from, to time.Time
	total    time.Duration
}

// span is from when a timer was due until it fired.
type span struct{ due, fired time.Time }

// startControl starts the timers, one for each processor that a caller may need.
func startControl() *control {
	const timers, tick, worth = 3, 5 * time.Millisecond, time.Millisecond
	c := &control{stop: make(chan struct{})}
	c.all.Go(c.sample)
	for range timers {
		c.all.Go(func() {
			timer := time.NewTimer(tick)
			defer timer.Stop()
			for due := time.Now().Add(tick); ; due = time.Now().Add(tick) {
				timer.Reset(tick)
				select {
				case <-timer.C:
				case <-c.stop:
					return
				}
				if now := time.Now(); now.Sub(due) > worth {
					c.mu.Lock()
					c.late = append(c.late, span{due, now})
					c.mu.Unlock()
				}
			}
		})
	}
	return c
}

// sample asks the kernel again and again. Without Linux there is nothing to ask.
func (c *control) sample() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c.look()
		select {
		case <-tick.C:
		case <-c.stop:
			return
		}
	}
}

// look asks the kernel once.
func (c *control) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := time.Now()
	total := waited()
	c.queued = append(c.queued, queued{before, time.Now(), total})
}

// waited returns how long all threads that there are have waited for a processor.
func waited() (total time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range files {
		var ran, waited int64
		text, _ := os.ReadFile(file) // the thread may have ended
		if n, _ := fmt.Sscan(string(text), &ran, &waited); n == 2 {
			total += time.Duration(waited)
		}
	}
	return total
}

// excuse returns by how much the machine may have held up a caller between two moments.
// A caller needs two goroutines more to have its result.
func (c *control) excuse(from, to time.Time) time.Duration {
	return 2*c.sum(from, to) + c.waits(from, to)
}

// Excuses starts a control that ends with the test. excuse returns by how much the machine
// may have held up a caller since a moment.
func Excuses(t redistest.TB) (excuse func(since time.Time) time.Duration) {
	c := startControl()
	t.Cleanup(c.end)
	return func(since time.Time) time.Duration {
		now := time.Now()
		c.look() // the last sample may be older
		return c.excuse(since, now)
	}
}

// waits returns how long threads waited for a processor between two moments, by the
// samples around them.
func (c *control) waits(from, to time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queued) == 0 {
		return 0
	}
	before, _ := slices.BinarySearchFunc(c.queued, from, func(q queued, at time.Time) int {
		return q.to.Compare(at)
	})
	after, _ := slices.BinarySearchFunc(c.queued, to, func(q queued, at time.Time) int {
		return q.from.Compare(at)
	})
	first, last := max(0, before-1), min(len(c.queued)-1, after)
	return max(0, c.queued[last].total-c.queued[first].total)
}

func (c *control) end() {
	close(c.stop)
	c.all.Wait()
}

// sum returns how long timers were late between two moments, each moment once.
func (c *control) sum(from, to time.Time) (late time.Duration) {
	c.mu.Lock()
	var spans []span
	for _, s := range c.late {
		if s.due.Before(to) && s.fired.After(from) {
			spans = append(spans, s)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(spans, func(a, b span) int { return a.due.Compare(b.due) })
	for _, s := range spans {
		if s.due.Before(from) {
			s.due = from
		}
		if s.fired.After(to) {
			s.fired = to
		}
		if more := s.fired.Sub(s.due); more > 0 {
			late += more
			from = s.fired
		}
	}
	return late
}

// Promised is how late a caller is at the most. Fake time proves that exactly, in the
// specs of the library.
const Promised = 50 * time.Millisecond

// tolerance is beyond what a busy machine adds in spite of all excuses.
const tolerance = 10 * Promised

// A Lateness is by how much callers were late: how long after its timeout or the end
// of its context each had its result; 0 for those before.
type Lateness struct{ calls []time.Duration }

func (l *Lateness) add(d time.Duration) { l.calls = append(l.calls, max(0, d)) }

// Quantile returns the lateness that so many of all calls kept.
func (l *Lateness) Quantile(part float64) time.Duration {
	if len(l.calls) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l.calls))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

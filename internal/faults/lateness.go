package faults

import (
	"slices"
	"sync"
	"time"
)

// A control is timers that do nothing else. How late they are is how late the machine
// makes everybody: no library can be more punctual.
type control struct {
	stop chan struct{}
	all  sync.WaitGroup

	mu   sync.Mutex
	late []span // guarded by mu
}

// span is from when a timer was due until it fired.
type span struct{ due, fired time.Time }

// startControl starts the timers, one for each processor that a caller may need.
func startControl() *control {
	const timers, tick, worth = 3, 5 * time.Millisecond, time.Millisecond
	c := &control{stop: make(chan struct{})}
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

// tolerance is how late a caller may be.
const tolerance = 50 * time.Millisecond

// A Lateness is by how much callers were late: how long after its timeout or the end
// of its context each had its result; 0 for those before.
type Lateness struct{ calls []time.Duration }

func (l *Lateness) add(d time.Duration) { l.calls = append(l.calls, max(0, d)) }

// Join adds the calls of another one.
func (l *Lateness) Join(other Lateness) { l.calls = append(l.calls, other.calls...) }

// Quantile returns the lateness that so many of all calls kept.
func (l *Lateness) Quantile(part float64) time.Duration {
	if len(l.calls) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l.calls))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

package formtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A grant is one of a run, in real time.
type grant struct {
	at time.Duration
	n  int64
}

// bounded drives a limiter by random traffic, by a clock that is right or set again and
// again. No window of real time has more than the bound. When the clock is set forward, all
// permits may be back at once.
func (s Suite) bounded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(t, 300)) {
		random := rand.New(rand.NewPCG(seed, 5))
		rate := []int64{1, 2, 5, 10, 100}[random.IntN(5)]
		interval := []time.Duration{10 * time.Millisecond, time.Second, time.Hour}[random.IntN(3)]
		d := &drive{random: random, rate: rate, interval: interval, sets: seed % 3}
		l, err := s.New(rate, interval).InMemory(limit.WithClock(d.now))
		d.l = must(t, l, err)
		for range 400 {
			d.step(t)
		}
		d.within(t, s.Worst)
		d.real += s.Full * interval
		if r, err := d.l.Allow(t.Context(), rate); err != nil || !r.Allowed {
			t.Errorf("nobody has used it for %d intervals, and it refuses: %+v %v", s.Full, r, err)
		}
		if t.Failed() {
			t.Fatalf("seed %d: rate %d, interval %v, the clock is set: %d (0 never, 1 back, 2 anyhow)",
				seed, rate, interval, d.sets)
		}
	}
}

// A drive is a run of one limiter.
type drive struct {
	l         limit.Limiter
	random    *rand.Rand
	rate      int64
	interval  time.Duration
	sets      uint64        // the clock: 0 right, 1 set back, 2 set back and forward
	real, off time.Duration // real time, and what the clock is ahead of it
	grants    []grant
	forward   []time.Duration // when it was set forward
	wait      time.Duration   // of the last refusal
}

func (d *drive) now() time.Time { return time.Unix(2_000_000_000, 0).Add(d.real + d.off) }

// step lets time pass, may set the clock, and asks.
func (d *drive) step(t *testing.T) {
	t.Helper()
	switch d.random.IntN(5) {
	case 0:
		d.real += time.Duration(d.random.Int64N(int64(d.interval))).Truncate(time.Microsecond)
	case 1:
		d.real += (d.interval / time.Duration(4*d.rate)).Truncate(time.Microsecond)
	case 2:
		d.real += d.wait // as those do who want all they can get
	}
	if d.sets > 0 && d.random.IntN(12) == 0 {
		d.set()
	}
	n := int64(1)
	if d.random.IntN(3) == 0 {
		n = 1 + d.random.Int64N(d.rate)
	}
	r, err := d.l.Allow(t.Context(), n)
	must(t, r, err)
	d.wait = r.RetryAfter
	if r.Allowed {
		d.grants = append(d.grants, grant{d.real, n})
	}
}

// set sets the clock, by a little or by much.
func (d *drive) set() {
	by := time.Duration(d.random.Int64N(int64(d.interval)))
	if d.random.IntN(2) == 0 {
		by *= 20
	}
	if d.sets == 2 && d.random.IntN(2) == 0 {
		d.off += by
		d.forward = append(d.forward, d.real)
	} else {
		d.off -= by
	}
}

// within expects that no window has more than the bound.
func (d *drive) within(t *testing.T, worst int64) {
	t.Helper()
	for i, first := range d.grants {
		sum, most := int64(0), worst*d.rate
		for _, at := range d.forward {
			if at >= first.at && at < first.at+d.interval {
				most += d.rate
			}
		}
		for _, g := range d.grants[i:] {
			if g.at < first.at+d.interval {
				sum += g.n
			}
		}
		if sum > most {
			t.Errorf("%d permits in the window from %v on, want at most %d", sum, first.at, most)
			return
		}
	}
}

package formtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Grant is permits of a run, in real time.
type Grant struct {
	At time.Duration
	N  int64
}

// Exceeded returns an error for the first window in which more permits were granted than most
// and what more has in it, which may be granted besides. interval is how long a window is.
func Exceeded(grants, more []Grant, interval time.Duration, most int64) error {
	for i, first := range grants {
		bound, sum := most, int64(0)
		for _, m := range more {
			if m.At >= first.At && m.At < first.At+interval {
				bound += m.N
			}
		}
		for _, g := range grants[i:] {
			if g.At < first.At+interval {
				sum += g.N
			}
		}
		if sum > bound {
			return fmt.Errorf("%d permits in the window from %v on, want at most %d", sum, first.At, bound)
		}
	}
	return nil
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
		d.l = redistest.Must(s.New(rate, interval).InMemory(limit.WithClock(d.now)))(t)
		for range 400 {
			d.step(t)
		}
		if err := Exceeded(d.grants, d.forward, interval, s.Worst*rate); err != nil {
			t.Error(err)
		}
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
	grants    []Grant
	forward   []Grant       // the rate, when the clock was set forward
	wait      time.Duration // of the last refusal
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
	r := redistest.Must(d.l.Allow(t.Context(), n))(t)
	d.wait = r.RetryAfter
	if r.Allowed {
		d.grants = append(d.grants, Grant{d.real, n})
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
		d.forward = append(d.forward, Grant{d.real, d.rate})
	} else {
		d.off -= by
	}
}

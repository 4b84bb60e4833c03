package load

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A call is one that was granted.
type call struct {
	begin, end time.Time
	permits    int64
}

// worst returns the most permits of calls that began and ended in one interval.
func worst(calls []call, interval time.Duration) (most int64) {
	for _, first := range calls {
		sum := int64(0)
		for _, c := range calls {
			if !c.begin.Before(first.begin) && c.end.Before(first.begin.Add(interval-slack)) {
				sum += c.permits
			}
		}
		most = max(most, sum)
	}
	return most
}

// A window finds the worst interval, or a little less, and never more.
func TestWindow(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		interval := []time.Duration{10 * time.Millisecond, time.Second, time.Hour}[seed%3]
		start := time.Now()
		w := NewWindow(start, interval)
		var calls []call
		at := start
		for range 300 {
			at = at.Add(time.Duration(random.ExpFloat64() * float64(interval) / 50))
			if random.IntN(50) == 0 {
				at = at.Add(time.Duration(random.IntN(10)) * interval) // a pause
			}
			begin := at.Add(-time.Duration(random.ExpFloat64() * float64(interval) / 100))
			if begin.Before(start) {
				begin = start
			}
			c := call{begin, at, 1 + random.Int64N(3)}
			w.Add(c.begin, c.end, c.permits)
			calls = append(calls, c)
		}
		got, want := w.Most(), worst(calls, interval)
		if got > want || got < want*9/10 {
			t.Errorf("seed %d: %d, want %d", seed, got, want)
		}
		if again := w.Most(); again != got {
			t.Errorf("seed %d: %d, then %d", seed, got, again)
		}
	}
}

// A window finds a broken limit wherever it was broken.
func TestWindowFindsTooMany(t *testing.T) {
	const interval = time.Second
	for offset := time.Duration(0); offset < 5*interval; offset += 37 * time.Millisecond {
		start := time.Now()
		w := NewWindow(start, interval)
		for at := time.Duration(0); at < 7*interval; at += interval / 10 {
			w.Add(start.Add(at), start.Add(at+time.Millisecond), 1)
		}
		if n := w.Most(); n != 10 {
			t.Errorf("%d permits in an interval, want 10", n)
		}
		w = NewWindow(start, interval)
		w.Add(start.Add(offset), start.Add(offset), 6)
		w.Add(start.Add(offset+interval-6*time.Millisecond), start.Add(offset+interval-4*time.Millisecond), 5)
		w.Add(start.Add(offset+2*interval), start.Add(offset+2*interval), 7)
		if n := w.Most(); n != 11 {
			t.Errorf("%v: %d permits in an interval, want 11", offset, n)
		}
	}
}

func TestWindowTooShort(t *testing.T) {
	for _, interval := range []time.Duration{-time.Second, 0, time.Millisecond, 2 * time.Millisecond} {
		w := NewWindow(time.Now(), interval)
		w.Add(time.Now(), time.Now(), 1)
		if w.checks() || w.Most() != 0 {
			t.Errorf("%v: %d", interval, w.Most())
		}
	}
}

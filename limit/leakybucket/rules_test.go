package leakybucket

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// In 30 days of odd steps a Meter gives out what exact arithmetic does, but for what leaks
// in a microsecond.
func TestMeterHasNoDriftInThirtyDays(t *testing.T) {
	for _, m := range []Meter{{5, 1, 2 * time.Second}, {1, 1, 3 * time.Second}, {100, 7, time.Minute}} {
		r := redistest.Must(m.rule())(t)
		unit := m.Interval.Microseconds() // of a permit; Rate of them leak in a µs
		level, w := int64(0), water{}
		random := rand.New(rand.NewPCG(30, 1))
		start := int64(1_700_000_000_000_000)
		for now := start; now < start+30*86400*1e6; {
			odd := 1 + random.Int64N(2*unit/m.Rate)
			now += odd
			level = max(0, level-odd*m.Rate)
			over := level - (m.Capacity-1)*unit
			granted := r.Take(&w, now, 1).Allowed
			if granted != (over <= 0) && max(over, -over) > m.Rate {
				t.Fatalf("%+v, after %d µs: granted %v, exactly %d are in it", m, now-start, granted, level)
			}
			if granted {
				level += unit
			}
		}
	}
}

// If the clock is set to and fro, nothing leaks out twice.
func TestAClockSetToAndFro(t *testing.T) {
	const base = 1_700_000_000_000_000
	granted := map[string]int{}
	h, w := hole{3, 10, 1e6}, water{}
	p, l := newPacer(Queue{10, time.Second, 1}, 1e6, false), line{}
	for i := range int64(40) {
		now := base + i%2*100_000
		if h.pour(&w, now, 1).Allowed {
			granted["Meter"]++
		}
		if p.take(&l, now, 1).Allowed {
			granted["Queue"]++
		}
	}
	if granted["Meter"] != 4 || granted["Queue"] != 2 {
		t.Errorf("in 100 ms are granted, of 3 and 10 a second, and of 10 a second: %v", granted)
	}
}

// A clock that is set far back leaves a full bucket, which leaks as ever, and a line of two
// intervals.
func TestAClockSetFarBack(t *testing.T) {
	const base = 1_700_000_000_000_000
	h, w := hole{3, 10, 1e6}, water{}
	p, l := newPacer(Queue{10, time.Second, 1}, 1e6, false), line{}
	h.pour(&w, base, 1)
	p.take(&l, base, 1)
	for i, now := range []int64{base - 3600e6, base - 3600e6 + 40_000} {
		if a := h.pour(&w, now, 1); a.Allowed || a.Retry != 100_000-int64(i)*40_000 {
			t.Errorf("Meter: %+v", a)
		}
		if a := p.take(&l, now, 1); a.Allowed || a.Retry != 2_000_000-int64(i)*40_000 {
			t.Errorf("Queue: %+v", a)
		}
	}
	if !h.pour(&w, base-3600e6+300_000, 3).Allowed || !p.take(&l, base-3600e6+2_000_000, 10).Allowed {
		t.Error("it refuses after its time")
	}
}

// The numbers may change while a limit is in use: what is in the bucket stays.
func TestNumbersThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		for i, tt := range []struct {
			m         Meter
			n         int64
			allowed   bool
			remaining int64
		}{
			{Meter{10, 1, time.Hour}, 8, true, 2},
			{Meter{20, 1, time.Minute}, 12, true, 0},
			{Meter{5, 1, time.Second}, 1, false, 0}, // 20 are in it
			{Meter{21, 1, time.Second}, 1, true, 0},
		} {
			l := redistest.Must(tt.m.OnRedis(rdb, "name"))(t)
			r, err := l.Allow(t.Context(), tt.n)
			if err != nil || r.Allowed != tt.allowed || r.Remaining != tt.remaining {
				t.Errorf("%d: %+v %v", i, r, err)
			}
		}
	})
}

// What others may write under the key of a Meter or of a Queue, in the right form, is no more
// than a limit, and is over after twice the time of one. It expires then.
func TestDataOfOthers(t *testing.T) {
	for _, text := range []string{
		"0 1", "-1 1", "-1e300 1", "1e300 1", "1e999 1", "-1e999 1", "0 9007199254740993",
		"5 " + strings.Repeat("9", 300), "5 " + strings.Repeat("9", 400), "1e300 9007199254740993",
		"- 1", "e 1", "0 0", "-0 0", "5 2000000000000000", "1e14 946684800000000", "-1e14 946684800000000",
		"0 946684800000000", "10 946684800000000", "1e9 946684800000000", // nothing is left now
	} {
		dataOfOthers(t, Meter{10, 10, time.Hour}, "{name}:leakybucket", text)
		dataOfOthers(t, Queue{10, time.Hour, 10}, "{name}:leakyqueue", text+" 9007199254740993")
	}
}

func dataOfOthers(t *testing.T, of formtest.Algorithm, key, text string) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.Set(t.Context(), key, text, 0)
		l := redistest.Must(of.OnRedis(rdb, "name"))(t)
		granted := 0
		for range 30 {
			r, err := l.Allow(t.Context(), 1)
			if err != nil || max(r.RetryAfter, r.ResetAfter) > 2*time.Hour || r.Remaining > 10 {
				t.Fatalf("%s %q: %+v %v", key, text, r, err)
			}
			if r.Allowed {
				granted++
			}
		}
		ttl := rdb.PTTL(t.Context(), key).Val()
		if granted > 10 || ttl <= 0 || ttl > 2*time.Hour+time.Millisecond {
			t.Errorf("%s %q: %d are granted, the time to live is %v", key, text, granted, ttl)
		}
		time.Sleep(2 * time.Hour)
		if r, err := l.Allow(t.Context(), 10); err != nil || !r.Allowed {
			t.Errorf("%s %q: after its time %+v %v", key, text, r, err)
		}
	})
}

// A process that was stopped goes on at its pace: turns that have passed do not come
// together, and nobody who comes later overtakes those who wait.
func TestStoppedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := redistest.Must(Queue{10, time.Second, 50}.LineInMemory())(t)
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
		time.Sleep(1050 * time.Millisecond) // eleven have had their turns
		err := l.(oneLine).Lone.(form.Opened[line]).Do(t.Context(), "", func(l *line, _ int64) {
			l.last -= 4e6 // as if four seconds had passed
			l.crowd.mu.Lock()
			defer l.crowd.mu.Unlock()
			l.crowd.next = l.crowd.next.Add(-4 * time.Second)
			l.crowd.timer.Reset(0)
		})
		r, err2 := l.Allow(t.Context(), 1)
		if err != nil || err2 != nil || r.Allowed || r.RetryAfter != 3*time.Second {
			t.Errorf("%+v %v %v", r, err, err2)
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
		if r, err := l.Allow(t.Context(), 1); err != nil || !r.Allowed {
			t.Errorf("when all have had their turns: %+v %v", r, err)
		}
	})
}

// A turn that is given back after it has passed is not given out again.
func TestATurnThatIsGivenBackLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		l := redistest.Must(
			form.OnRedis(Queue{Rate: 10, Interval: time.Second, Capacity: 5}.waits, rdb, "name"))(t)
		ask := func() form.Answer {
			_, a, err := l.Lend(t.Context(), "", 1)
			if err != nil || !a.Allowed {
				t.Errorf("%+v, %v", a, err)
			}
			return a
		}
		ask()
		late := ask()
		time.Sleep(250 * time.Millisecond)
		if a := ask(); a.Retry != 0 {
			t.Errorf("nobody waits any more: %+v", a)
		}
		redistest.NoError(t, l.Return(t.Context(), "", 1, late))
		time.Sleep(50 * time.Millisecond)
		if a := ask(); a.Retry != 50_000 {
			t.Errorf("50 ms after a turn: %+v", a)
		}
	})
}

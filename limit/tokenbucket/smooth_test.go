package tokenbucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A Smooth is paced: with what is saved in a second small beside the interval, and with
// a short warm-up, which saves as little.
func TestSmoothIsPaced(t *testing.T) {
	for _, tt := range []struct{ interval, warmUp time.Duration }{
		{100 * time.Second, 0}, {time.Second, time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			limittest.TestLimiter(t, limittest.Spec{
				New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
					s := tokenbucket.Smooth{Rate: float64(rate), Interval: interval, WarmUp: tt.warmUp}
					return smooth(t, s)
				},
				Algorithm: limittest.Paced, Interval: tt.interval, Synctest: true,
			})
			limittest.TestKeyed(t, limittest.KeyedSpec{
				New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
					s := tokenbucket.Smooth{Rate: float64(rate), Interval: interval, WarmUp: tt.warmUp}
					l := redistest.Must(s.InMemoryKeyed())(t)
					return l
				},
				Algorithm: limittest.Paced, Interval: tt.interval, Synctest: true,
			})
		})
	}
}

func smooth(t *testing.T, s tokenbucket.Smooth) *tokenbucket.SmoothLimiter {
	t.Helper()
	l := redistest.Must(s.InMemory())(t)
	return l
}

// acquired expects how long callers wait who come one after the other.
func acquired(t *testing.T, l *tokenbucket.SmoothLimiter, n int64, want ...time.Duration) {
	t.Helper()
	for i, want := range want {
		waited, err := l.Acquire(t.Context(), n)
		if err != nil || waited.Round(10*time.Microsecond) != want {
			t.Errorf("caller %d: Acquire(%d) waited %v, want %v; %v", i, n, waited, want, err)
		}
	}
}

// The next caller pays, whatever it wants itself.
func TestTheNextCallerPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smooth(t, tokenbucket.Smooth{Rate: 10, Interval: time.Second})
		acquired(t, l, 10, 0, time.Second)
		acquired(t, l, 1, time.Second, 100*time.Millisecond, 100*time.Millisecond)
	})
}

// What nobody takes is saved for a second, and costs nothing.
func TestASecondIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smooth(t, tokenbucket.Smooth{Rate: 5, Interval: time.Second})
		time.Sleep(time.Minute)
		acquired(t, l, 5, 0, 0, time.Second)
	})
}

// A limiter that was idle is cold: the intervals go from three times to once as long while
// it warms up.
func TestWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		l := smooth(t, tokenbucket.Smooth{Rate: 2, Interval: time.Second, WarmUp: 4 * time.Second})
		for range 2 {
			acquired(t, l, 1, 0, 1375*ms, 1125*ms, 875*ms, 625*ms, 500*ms, 500*ms, 500*ms, 500*ms)
			time.Sleep(time.Minute)
		}
	})
}

// TryAcquire knows at once whether it has to wait for too long, and takes nothing then.
func TestTryAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smooth(t, tokenbucket.Smooth{Rate: 10, Interval: time.Second})
		start := time.Now()
		for i, tt := range []struct {
			n       int64
			timeout time.Duration
			want    bool
			at      time.Duration
		}{
			{5, 0, true, 0}, {1, 0, false, 0}, {1, -time.Second, false, 0},
			{1, 499 * time.Millisecond, false, 0},
			{1, 500 * time.Millisecond, true, 500 * time.Millisecond},
			{1, time.Hour, true, 600 * time.Millisecond},
		} {
			ok, err := l.TryAcquire(t.Context(), tt.n, tt.timeout)
			if err != nil || ok != tt.want || time.Since(start) != tt.at {
				t.Errorf("%d: %v %v after %v; want %+v", i, ok, err, time.Since(start), tt)
			}
		}
	})
}

// A caller whose context ends takes nothing if it is the last one. Otherwise its time
// passes unused.
func TestAcquireAndAContext(t *testing.T) {
	for behind, want := range map[int]time.Duration{0: 100 * time.Millisecond, 1: 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := smooth(t, tokenbucket.Smooth{Rate: 10, Interval: time.Second})
			acquired(t, l, 1, 0)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				waited, err := l.Acquire(ctx, 1)
				if !errors.Is(err, context.DeadlineExceeded) || waited != 50*time.Millisecond {
					t.Errorf("Acquire: %v %v", waited, err)
				}
			})
			synctest.Wait()
			start := time.Now()
			for range behind {
				all.Go(func() { acquired(t, l, 1, 200*time.Millisecond) })
			}
			all.Wait()
			acquired(t, l, 1, want-time.Since(start))
		})
	}
}

// Each key has its own. One for which somebody waits is not dropped.
func TestSmoothKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := redistest.Must(tokenbucket.Smooth{Rate: 1, Interval: time.Second}.InMemoryKeyed())(t)
		start := time.Now()
		var mu sync.Mutex
		var seen []int
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() {
				if _, err := l.Acquire(t.Context(), "busy", 1); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, int(time.Since(start).Seconds()))
			})
		}
		for range 59 { // the shelf turns again and again
			time.Sleep(time.Second)
			synctest.Wait()
			if ok, err := l.TryAcquire(t.Context(), "other", 1, 0); !ok || err != nil {
				t.Errorf("the other key: %v %v", ok, err)
			}
			if r, err := l.Allow(t.Context(), "busy", 1); err != nil || r.Allowed {
				t.Errorf("%+v %v", r, err)
			}
		}
		all.Wait()
		for i, at := range seen {
			if at != i {
				t.Fatalf("%v", seen)
			}
		}
		if !slices.IsSorted(seen) {
			t.Error(seen)
		}
	})
}

// A key that owes is not dropped, however long nobody has called, also when some have left.
func TestSmoothOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := redistest.Must(tokenbucket.Smooth{Rate: 10, Interval: 10 * time.Second}.InMemoryKeyed())(t)
		if _, err := l.Acquire(t.Context(), "busy", 10); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i < 5 {
				time.AfterFunc(time.Second, cancel)
			}
			all.Go(func() { _, _ = l.Acquire(ctx, "busy", 10) })
			synctest.Wait()
		}
		for second := range 69 { // nobody else calls for half of it
			time.Sleep(time.Second)
			if r, err := l.Allow(t.Context(), "other", 1); err != nil || !r.Allowed {
				t.Errorf("the other key: %+v %v", r, err)
			}
			if second < 35 {
				continue
			}
			if r, err := l.Allow(t.Context(), "busy", 10); err != nil || r.Allowed {
				t.Fatalf("granted after %d s, and 70 s are owed", second+1)
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		if r, err := l.Allow(t.Context(), "busy", 10); err != nil || !r.Allowed {
			t.Errorf("after 70 s: %+v %v", r, err)
		}
	})
}

// A wait longer than a Duration is the longest one, not a short one.
func TestSmoothForCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smooth(t, tokenbucket.Smooth{Rate: 1, Interval: 9 * 365 * 24 * time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 70 {
			all.Go(func() {
				if _, err := l.Acquire(ctx, 1); i > 0 && err == nil {
					t.Errorf("number %d is granted at once, and should wait for %d years", i, i*9)
				}
			})
			synctest.Wait()
		}
		if r, err := l.Allow(ctx, 1); err != nil || r.Allowed || r.RetryAfter != 1<<63-1 {
			t.Errorf("%+v %v", r, err)
		}
		cancel()
		all.Wait()
	})
}

// A clock that is set back does not keep anybody waiting, and permits do not come twice.
func TestSmoothAndAClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := redistest.Must(tokenbucket.Smooth{Rate: 10, Interval: time.Second}.
		InMemory(limit.WithClock(func() time.Time { return now })))(t)
	for i, tt := range []struct {
		set   time.Duration
		n     int64
		want  bool
		retry time.Duration
	}{
		{0, 5, true, 0},
		{-time.Hour, 1, false, 500 * time.Millisecond},
		{200 * time.Millisecond, 1, false, 300 * time.Millisecond},
		{300 * time.Millisecond, 1, true, 0},
	} {
		now = now.Add(tt.set)
		r, err := l.Allow(t.Context(), tt.n)
		if err != nil || r.Allowed != tt.want || r.RetryAfter != tt.retry {
			t.Errorf("%d: %+v %v", i, r, err)
		}
	}
}

func TestSmoothBounds(t *testing.T) {
	for text, s := range map[string]tokenbucket.Smooth{
		"Rate is 0":           {Interval: time.Second},
		"Interval is 0s":      {Rate: 1},
		"WarmUp is -1s":       {Rate: 1, Interval: time.Second, WarmUp: -time.Second},
		"WarmUp is 1ns":       {Rate: 1, Interval: time.Second, WarmUp: 1},
		"WarmUp is 2562047h":  {Rate: 1, Interval: time.Second, WarmUp: 1<<63 - 1},
		"Rate is 1e-10 in 1s": {Rate: 1e-10, Interval: time.Second},
	} {
		l, err := s.InMemory()
		k, err2 := s.InMemoryKeyed()
		if l != nil || k != nil || !errors.Is(err, limit.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), text) || err.Error() != err2.Error() {
			t.Errorf("%+v: %v, want %q", s, err, text)
		}
	}
	l := smooth(t, tokenbucket.Smooth{Rate: 3.7, Interval: time.Second})
	for n, want := range map[int64]error{0: limit.ErrInvalidArgument, 4: limit.ErrPermitsExceedRate} {
		_, err := l.Acquire(t.Context(), n)
		_, err2 := l.TryAcquire(t.Context(), n, 0)
		if !errors.Is(err, want) || !errors.Is(err2, want) {
			t.Errorf("n is %d: %v, %v", n, err, err2)
		}
	}
	k, err := tokenbucket.Smooth{Rate: 1, Interval: time.Second}.InMemoryKeyed()
	if err == nil {
		_, err = k.Acquire(t.Context(), "", 1)
	}
	if !errors.Is(err, limit.ErrInvalidArgument) {
		t.Errorf("an empty key: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	acquired(t, l, 3, 0)
}

package tokenbucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A Smooth is paced: if a second is short beside the interval, or with a short warm-up, it saves few permits.
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
	return redistest.Must(s.InMemory())(t)
}

// acquired expects how long consecutive callers wait.
func acquired(t *testing.T, l *tokenbucket.SmoothLimiter, n int64, want ...time.Duration) {
	t.Helper()
	for i, want := range want {
		waited, err := l.Acquire(t.Context(), n)
		if err != nil || waited.Round(10*time.Microsecond) != want {
			t.Errorf("caller %d: Acquire(%d) waited %v, want %v; %v", i, n, waited, want, err)
		}
	}
}

// The next caller pays, whatever it asks for.
func TestTheNextCallerPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smooth(t, tokenbucket.Smooth{Rate: 10, Interval: time.Second})
		acquired(t, l, 10, 0, time.Second)
		acquired(t, l, 1, time.Second, 100*time.Millisecond, 100*time.Millisecond)
		for range 2 { // a look takes nothing
			if r := redistest.Must(l.Peek(t.Context()))(t); r.RetryAfter != 100*time.Millisecond {
				t.Errorf("Peek: %+v, want a permit after 100 ms", r)
			}
		}
		time.Sleep(100 * time.Millisecond)
		acquired(t, l, 1, 0)
	})
}

// The unused permits of a second are saved, and cost nothing.
func TestASecondOfPermitsIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := smooth(t, tokenbucket.Smooth{Rate: 5, Interval: time.Second})
		time.Sleep(time.Minute)
		acquired(t, l, 5, 0, 0, time.Second)
	})
}

// A limiter that was idle is cold: permits take three times as long at first, and less while it warms up.
func TestAColdSmoothWarmsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		l := smooth(t, tokenbucket.Smooth{Rate: 2, Interval: time.Second, WarmUp: 4 * time.Second})
		for range 2 {
			acquired(t, l, 1, 0, 1375*ms, 1125*ms, 875*ms, 625*ms, 500*ms, 500*ms, 500*ms, 500*ms)
			time.Sleep(time.Minute)
		}
	})
}

// TryAcquire returns at once if the wait exceeds its timeout, and takes nothing.
func TestTryAcquireReturnsAtOnceIfTheWaitIsTooLong(t *testing.T) {
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

// The last caller takes nothing if its context ends. The time of an earlier caller passes unused.
func TestTheEndOfAContextGivesTheLastTurnBack(t *testing.T) {
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

// Each key has its own limiter, which is kept while callers wait for it.
func TestAKeyWithWaitingCallersIsKept(t *testing.T) {
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
		for range 59 { // the cache drops idle keys again and again
			time.Sleep(time.Second)
			synctest.Wait()
			if ok, err := l.TryAcquire(t.Context(), "other", 1, 0); !ok || err != nil {
				t.Errorf("the other key: %v %v", ok, err)
			}
			formtest.Allow(t, limit.Of(l, "busy"), 1, false)
		}
		all.Wait()
		for i, at := range seen {
			if at != i {
				t.Fatalf("%v", seen)
			}
		}
	})
}

// A key that owes is kept without calls, also after callers have left.
func TestAKeyThatOwesIsKept(t *testing.T) {
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
		for second := range 69 { // without calls of the key for half of the time
			time.Sleep(time.Second)
			formtest.Allow(t, limit.Of(l, "other"), 1, true)
			if second >= 35 { // 70 s are owed
				formtest.Allow(t, limit.Of(l, "busy"), 10, false)
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		formtest.Allow(t, limit.Of(l, "busy"), 10, true)
	})
}

// A wait beyond the longest Duration is that Duration, not a short one.
func TestAWaitOfCenturies(t *testing.T) {
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
		if r := formtest.Allow(t, l, 1, false); r.RetryAfter != 1<<63-1 {
			t.Errorf("%+v", r)
		}
		cancel()
		all.Wait()
	})
}

// A clock that is set back delays no caller, and no permit comes twice.
func TestSmoothBearsAClock(t *testing.T) {
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
		if r := formtest.Allow(t, l, tt.n, tt.want); r.RetryAfter != tt.retry {
			t.Errorf("%d: %+v", i, r)
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
		formtest.Fails(t, want, err)
		formtest.Fails(t, want, err2)
	}
	k := redistest.Must(tokenbucket.Smooth{Rate: 1, Interval: time.Second}.InMemoryKeyed())(t)
	_, err := k.Acquire(t.Context(), "", 1)
	formtest.Fails(t, limit.ErrInvalidArgument, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(ctx, 1)
	formtest.Fails(t, context.Canceled, err)
	acquired(t, l, 3, 0)
}

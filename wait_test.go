package rratelimiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// B24: the wait ends when the record expires, to the millisecond.
func TestWaitEndsWhenThePermitsAreBack(t *testing.T) {
	inBubble(t, 10, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, _ *miniredis.Miniredis) {
		took(t, l, 4, time.Minute, 0)
		time.Sleep(300 * time.Millisecond)
		took(t, l, 6, time.Minute, 0)
		took(t, l, 3, time.Minute, 700*time.Millisecond) // out of the 4
		took(t, l, 5, time.Minute, 300*time.Millisecond) // 1 is left, 6 come back
		if err := l.Acquire(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	})
}

// The wait for many permits is computed at once, however many records hold them.
func TestWaitForManyRecordsLooksTwice(t *testing.T) {
	inBubble(t, 500, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis) {
		for range 500 {
			took(t, l, 1, 0, 0)
			time.Sleep(time.Millisecond)
		}
		before := m.CommandCount()
		took(t, l, 450, time.Minute, 949*time.Millisecond)
		if n := m.CommandCount() - before; n > 42 {
			t.Fatalf("%d commands in Redis for one wait, want those of two looks", n)
		}
	})
}

// B20: when the timeout passes there is a last look. It finds what no message has
// told of.
func TestWaitLooksOnceMoreAtTheDeadline(t *testing.T) {
	inBubble(t, 2, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis) {
		took(t, l, 2, 0, 0)
		time.AfterFunc(300*time.Millisecond, func() { m.Del("{l}:permits") })
		took(t, l, 1, 500*time.Millisecond, 500*time.Millisecond)
	})
}

func TestWaitEndsWithItsTimeout(t *testing.T) {
	inBubble(t, 2, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, _ *miniredis.Miniredis) {
		took(t, l, 2, 0, 0)
		start := time.Now()
		ok, err := l.TryAcquire(t.Context(), 1, 999*time.Millisecond)
		if got := time.Since(start); ok || err != nil || got != 999*time.Millisecond {
			t.Fatalf("%v, %v after %v; want false after 999ms", ok, err, got)
		}
		took(t, l, 1, time.Millisecond, time.Millisecond) // due at the deadline itself
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	inBubble(t, 1, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis) {
		took(t, l, 1, 0, 0)
		before := m.Dump()
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if end == context.Canceled {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			start := time.Now()
			ok, err := l.TryAcquire(ctx, 1, time.Minute)
			if ok || !errors.Is(err, end) || time.Since(start) != 100*time.Millisecond {
				t.Fatalf("TryAcquire: %v, %v after %v; want %v after 100ms", ok, err, time.Since(start), end)
			}
			if err := l.Acquire(ctx, 1); !errors.Is(err, end) {
				t.Fatalf("Acquire: %v, want %v", err, end)
			}
			cancel()
		}
		m.HDel("l", wire.Waiting)
		if after := m.Dump(); after != before {
			t.Fatalf("something was kept:\n%s\nbefore:\n%s", after, before)
		}
	})
}

func TestWaitEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		l := c.RateLimiter("l")
		if err := l.SetRate(t.Context(), overall, 1, time.Hour); err != nil {
			t.Fatal(err)
		}
		took(t, l, 1, 0, 0)
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		if err := l.Acquire(t.Context(), 1); !errors.Is(err, rratelimiter.ErrClosed) {
			t.Fatalf("%v, want ErrClosed", err)
		}
	})
}

// B5: a waiter waits for one interval at most, whatever the records say.
func TestWaitIsNoLongerThanAnInterval(t *testing.T) {
	inBubble(t, 1, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis) {
		took(t, l, 1, 0, 0)
		hour := float64(time.Now().Add(time.Hour).UnixMilli())
		members, err := m.ZMembers("{l}:permits")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ZAdd("{l}:permits", hour, members[0]); err != nil {
			t.Fatal(err)
		}
		took(t, l, 1, time.Minute, time.Second)
	})
}

// A rate that is changed under a waiter counts from its next look on.
func TestWaitSeesAChangeOfTheRate(t *testing.T) {
	inBubble(t, 5, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, _ *miniredis.Miniredis) {
		took(t, l, 5, 0, 0)
		set := make(chan error, 1)
		time.AfterFunc(500*time.Millisecond, func() {
			set <- l.SetRate(context.Background(), overall, 2, time.Second, rratelimiter.WithKeepState())
		})
		if _, err := l.TryAcquire(t.Context(), 3, time.Minute); !errors.Is(err,
			rratelimiter.ErrPermitsExceedRate) {
			t.Fatalf("%v, want ErrPermitsExceedRate", err)
		}
		if err := <-set; err != nil { // it is heard of before it is over
			t.Error(err)
		}
	})
}

// Many callers at once never get more than the rate in any interval, and get
// all of it.
func TestWaitersShareTheRate(t *testing.T) {
	inBubble(t, 5, time.Second, func(t *testing.T, l *rratelimiter.RateLimiter, _ *miniredis.Miniredis) {
		start := time.Now()
		got := make(chan time.Duration, 20)
		for range 20 {
			go func() {
				if err := l.Acquire(context.Background(), 1); err != nil {
					t.Error(err)
				}
				got <- time.Since(start)
			}()
		}
		counts := map[time.Duration]int{}
		for range 20 {
			counts[<-got]++
		}
		for i := range 4 {
			if at := time.Duration(i) * time.Second; counts[at] != 5 {
				t.Errorf("%d were granted at %v, want 5 each second: %v", counts[at], at, counts)
			}
		}
	})
}

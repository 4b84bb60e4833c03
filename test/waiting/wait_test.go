package waiting_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// B24: the wait ends when the record expires, to the millisecond.
func TestWaitEndsWhenThePermitsAreBack(t *testing.T) {
	InBubble(t, 10, time.Second, func(l *Limiter) {
		l.Took(4, time.Minute, 0)
		time.Sleep(300 * time.Millisecond)
		l.Took(6, time.Minute, 0)
		l.Took(3, time.Minute, 700*time.Millisecond) // out of the 4
		l.Took(5, time.Minute, 300*time.Millisecond) // 1 is left, 6 come back
		l.Want(l.Acquire(l.Context(), 10))
	})
}

// The wait for many permits is computed at once, however many records hold them: a look before the
// subscription, one after it, and the grant.
func TestWaitForManyRecordsLooksTwice(t *testing.T) {
	InBubble(t, 500, time.Second, func(l *Limiter) {
		for range 500 {
			l.Took(1, 0, 0)
			time.Sleep(time.Millisecond)
		}
		before, trips := l.Mini.CommandCount(), redistest.RoundTrips(l.RDB)
		l.Took(450, time.Minute, 949*time.Millisecond)
		calls, commands := trips.Load(), l.Mini.CommandCount()-before
		if calls != 3 || commands > 50 { // a few of them open connections
			l.Fatalf("%d calls with %d commands for one wait, want 3 with some 14 each", calls, commands)
		}
	})
}

// B20: when the timeout passes there is a last look. It finds what no message has
// told of.
func TestWaitLooksOnceMoreAtTheDeadline(t *testing.T) {
	InBubble(t, 2, time.Second, func(l *Limiter) {
		l.Took(2, 0, 0)
		time.AfterFunc(300*time.Millisecond, func() { l.Mini.Del("{l}:permits") })
		l.Took(1, 500*time.Millisecond, 500*time.Millisecond)
	})
}

func TestWaitEndsWithItsTimeout(t *testing.T) {
	InBubble(t, 2, time.Second, func(l *Limiter) {
		l.Took(2, 0, 0)
		start := time.Now()
		ok, err := l.TryAcquire(l.Context(), 1, 999*time.Millisecond)
		if got := time.Since(start); ok || err != nil || got != 999*time.Millisecond {
			l.Fatalf("%v, %v after %v; want false after 999ms", ok, err, got)
		}
		l.Took(1, time.Millisecond, time.Millisecond) // due at the deadline itself
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	InBubble(t, 1, time.Second, func(l *Limiter) {
		l.Took(1, 0, 0)
		before := l.Mini.Dump()
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithTimeout(l.Context(), 100*time.Millisecond)
			if end == context.Canceled {
				ctx, cancel = context.WithCancel(l.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			start := time.Now()
			ok, err := l.TryAcquire(ctx, 1, time.Minute)
			if ok || !errors.Is(err, end) || time.Since(start) != 100*time.Millisecond {
				l.Fatalf("TryAcquire: %v, %v after %v; want %v after 100ms", ok, err, time.Since(start), end)
			}
			if err := l.Acquire(ctx, 1); !errors.Is(err, end) {
				l.Fatalf("Acquire: %v, want %v", err, end)
			}
			cancel()
		}
		l.Mini.HDel("l", wire.Waiting)
		if after := l.Mini.Dump(); after != before {
			l.Fatalf("something was kept:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// B5: a waiter waits for one interval at most, whatever the records say.
func TestWaitIsNoLongerThanAnInterval(t *testing.T) {
	InBubble(t, 1, time.Second, func(l *Limiter) {
		l.Took(1, 0, 0)
		hour := float64(time.Now().Add(time.Hour).UnixMilli())
		members, err := l.Mini.ZMembers("{l}:permits")
		if err != nil {
			l.Fatal(err)
		}
		if _, err := l.Mini.ZAdd("{l}:permits", hour, members[0]); err != nil {
			l.Fatal(err)
		}
		l.Took(1, time.Minute, time.Second)
	})
}

// A rate that is changed under a waiter counts from its next look on.
func TestWaitSeesAChangeOfTheRate(t *testing.T) {
	InBubble(t, 5, time.Second, func(l *Limiter) {
		l.Took(5, 0, 0)
		set := make(chan error, 1)
		time.AfterFunc(500*time.Millisecond, func() {
			set <- l.SetRate(context.Background(), Overall, 2, time.Second, rratelimiter.WithKeepState())
		})
		WantErr(l, ErrOf(l.TryAcquire(l.Context(), 3, time.Minute)), rratelimiter.ErrPermitsExceedRate)
		if err := <-set; err != nil { // it is heard of before it is over
			l.Error(err)
		}
	})
}

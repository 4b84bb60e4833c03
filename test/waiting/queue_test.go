package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Callers that come during a call share the next one.
func TestCallersThatComeTogetherAskOnce(t *testing.T) {
	GatedBubble(t, 1000, time.Second, func(c *Limiter) {
		open := c.Gate.Shut()
		visits := []func() Visit{}
		for range 101 {
			visits = append(visits, c.Comes(c.Context(), 1, 0))
		}
		open()
		synctest.Wait()
		for i, visit := range visits {
			if v := visit(); !v.OK || v.Err != nil {
				c.Errorf("caller %d: %v, %v", i, v.OK, v.Err)
			}
		}
		if n := c.Gate.Count(); n != 2 {
			c.Errorf("%d calls, want one for the first and one for the 100 that came meanwhile", n)
		}
		if members, err := c.Mini.ZMembers("{l}:permits"); len(members) != 2 || err != nil {
			c.Errorf("%d records, want one for each call", len(members))
		}
	})
}

// Callers that share a call get the results that the same requests get one by one,
// in their order.
func TestTogetherIsAsOneByOne(t *testing.T) {
	type ask struct {
		permits int64
		numbers bool
	}
	for seed := range uint64(60) {
		GatedBubble(t, 20, time.Second, func(c *Limiter) {
			random := rand.New(rand.NewPCG(seed, 0))
			alone := c.Other().RateLimiter
			c.Want(alone.SetRate(c.Context(), Overall, 20, time.Second))
			asks := make([]ask, 1+random.IntN(30))
			for i := range asks {
				asks[i] = ask{1 + random.Int64N(6), random.IntN(2) == 0}
				if random.IntN(10) == 0 {
					asks[i].permits = 21 + random.Int64N(2) // above the rate
				}
			}
			answer := func(l *rratelimiter.RateLimiter, a ask) string {
				if a.numbers {
					r, err := l.Allow(c.Context(), a.permits)
					return fmt.Sprint(r, err)
				}
				ok, err := l.TryAcquire(c.Context(), a.permits, 0)
				return fmt.Sprint(ok, err)
			}
			want := make([]string, len(asks))
			for i, a := range asks {
				want[i] = answer(alone, a)
			}
			value, err := c.Mini.Get("{l}:value")
			NoError(c.T, err)

			c.Want(alone.SetRate(c.Context(), Overall, 20, time.Second))
			open, got := c.Gate.Shut(), make([]string, len(asks))
			for i, a := range asks {
				go func() { got[i] = answer(c.RateLimiter, a) }()
				synctest.Wait()
			}
			open()
			synctest.Wait()
			for i, a := range asks {
				if got[i] != want[i] {
					c.Errorf("seed %d, %d of %v, %v: %s; one by one %s", seed, i, asks, a, got[i], want[i])
				}
			}
			if together, err := c.Mini.Get("{l}:value"); together != value || err != nil {
				c.Errorf("seed %d: value %s, one by one %s", seed, together, value)
			}
		})
	}
}

// Waiters are served first come, first served. Small requests do not overtake a
// large one.
func TestTheLineIsServedInOrder(t *testing.T) {
	GatedBubble(t, 10, time.Second, func(c *Limiter) {
		for range 10 {
			c.Took(1, 0, 0)
			c.Sleep(50 * time.Millisecond)
		}
		var visits []func() Visit
		for _, permits := range []int64{1, 8, 1, 1, 2} { // at 500ms
			visits = append(visits, c.Comes(c.Context(), permits, time.Minute))
		}
		c.Sleep(5 * time.Second)
		// The first permit is back at 1s, eight more at 1.4s, two at 1.45s and 2s.
		want := []time.Duration{500, 900, 950, 1500, 1900}
		for i, visit := range visits {
			if v := visit(); !v.OK || v.Err != nil || v.After != want[i]*time.Millisecond {
				c.Errorf("caller %d: %+v; want served after %v", i, v, want[i]*time.Millisecond)
			}
		}
	})
}

// A caller without a timeout takes what is there, also when other callers wait for more.
func TestWithoutATimeoutOneTakesWhatIsThere(t *testing.T) {
	GatedBubble(t, 10, time.Second, func(c *Limiter) {
		c.Took(8, 0, 0)
		large := c.Comes(c.Context(), 5, time.Minute)
		behind := c.Comes(c.Context(), 1, time.Minute)
		c.Took(1, 0, 0)
		synctest.Wait()
		if large().Done || behind().Done {
			c.Errorf("%+v, %+v: served before the permits were there", large(), behind())
		}
		c.Sleep(time.Second)
		if !large().OK || !behind().OK {
			c.Errorf("%+v, %+v: want both served after a second", large(), behind())
		}
	})
}

// Only the head of the line asks, when its permits are due.
func TestAThousandWaitersAskSeldom(t *testing.T) {
	for name, gap := range map[string]time.Duration{"bursts": 0, "evenly": 10 * time.Millisecond} {
		GatedBubble(t, 100, time.Second, func(c *Limiter) {
			for range 100 {
				c.Took(1, 0, 0)
				c.Sleep(gap)
			}
			if gap == 0 {
				c.Sleep(time.Millisecond)
			}
			visits := make([]func() Visit, 1000)
			before := c.Gate.Count()
			for i := range visits {
				visits[i] = c.Comes(c.Context(), 1, ForAges)
			}
			c.Sleep(11 * time.Second)
			for i, visit := range visits {
				if v := visit(); !v.OK || i > 0 && v.At.Before(visits[i-1]().At) {
					c.Fatalf("caller %d: %+v", i, v)
				}
			}
			most := 1100
			if gap == 0 {
				most = 20
			}
			if calls := c.Gate.Count() - before; calls > most {
				c.Errorf("%s: %d calls for 1,000 grants, want at most %d", name, calls, most)
			}
		})
	}
}

// A line that is too long for one call is probed in several.
func TestALongLineIsProbedInSeveralCalls(t *testing.T) {
	GatedBubble(t, 1000, time.Hour, func(c *Limiter) {
		c.Took(1000, 0, 0)
		visits := make([]func() Visit, 600)
		for i := range visits {
			visits[i] = c.Comes(c.Context(), int64(1+i%2), ForAges)
		}
		before := c.Gate.Count()
		c.Want(c.Other().Release(c.Context(), 1000))
		c.Sleep(time.Second)
		for i, visit := range visits {
			if v := visit(); !v.OK || v.After > 0 {
				c.Fatalf("caller %d: %+v; want served at once", i, v)
			}
		}
		if calls := c.Gate.Count() - before; calls > 4 {
			c.Errorf("%d calls for 600 in line, want 3", calls)
		}
		c.HasTaken(900)
	})
}

// Each timeout passes at its own time, wherever its caller stands.
func TestTimeoutsInLinePassAtTheirOwnTime(t *testing.T) {
	GatedBubble(t, 1, time.Minute, func(c *Limiter) {
		c.Took(1, 0, 0)
		var visits []func() Visit
		for _, timeout := range []time.Duration{3, 1, 2, 90} {
			visits = append(visits, c.Comes(c.Context(), 1, timeout*time.Second))
		}
		c.Sleep(2 * time.Minute)
		for i, want := range []time.Duration{3, 1, 2, 60} {
			if v := visits[i](); v.OK != (i == 3) || v.Err != nil || v.After != want*time.Second {
				c.Errorf("caller %d: %+v; want a result after %ds", i, v, want)
			}
		}
	})
}

// Callers that want more than the rate get their error at once, wherever others
// stand. Those that wait for less stay.
func TestRequestsAboveTheRateDoNotStandInLine(t *testing.T) {
	GatedBubble(t, 5, time.Second, func(c *Limiter) {
		c.Took(5, 0, 0)
		waits := c.Comes(c.Context(), 5, ForAges)
		tooMuch := c.Comes(c.Context(), 6, ForAges)
		if !errors.Is(tooMuch().Err, rratelimiter.ErrPermitsExceedRate) || tooMuch().After != 0 {
			c.Errorf("%+v; want ErrPermitsExceedRate at once", tooMuch())
		}
		c.Want(c.Other().SetRate(c.Context(), Overall, 4, time.Second,
			rratelimiter.WithKeepState()))
		synctest.Wait()
		if !errors.Is(waits().Err, rratelimiter.ErrPermitsExceedRate) || waits().After != 0 {
			c.Errorf("%+v; want ErrPermitsExceedRate when the rate is lowered", waits())
		}
	})
}

// A change by another process wakes the waiters.
func TestChangesElsewhereWakeTheLine(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
		"Release": func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Release(ctx, 2) },
		"SetRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return l.SetRate(ctx, Overall, 9, time.Hour)
		},
		"UpdateRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.UpdateRate(ctx, Overall, 9, time.Hour, rratelimiter.WithKeepState())
			return err
		},
		"Delete": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.Delete(ctx)
			return err
		},
		"Rename": func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Rename(ctx, "m") },
	} {
		GatedBubble(t, 5, time.Hour, func(c *Limiter) {
			other := c.Other().RateLimiter
			c.Took(5, 0, 0)
			waits := c.Comes(c.Context(), 2, ForAges)
			c.Sleep(time.Second)
			if err := change(c.Context(), other); err != nil {
				c.Fatal(name, err)
			}
			synctest.Wait()
			gone := name == "Delete" || name == "Rename"
			if waits().OK == gone || errors.Is(waits().Err, rratelimiter.ErrNotInitialized) != gone ||
				waits().After != time.Second {
				c.Errorf("%s: %+v; want a result at once", name, waits())
			}
		})
	}
}

// No waiter is forgotten when the Client is closed.
func TestCloseEndsTheLine(t *testing.T) {
	Bubble(t, func(l *Limiter) {
		l.Want(l.SetRate(l.Context(), Overall, 1, time.Hour))
		l.Took(1, 0, 0)
		errs := make(chan error, 100)
		for range 100 {
			go func() { errs <- l.Acquire(context.Background(), 1) }()
		}
		synctest.Wait()
		l.Want(l.Client.Close())
		for range 100 {
			WantErr(l, <-errs, rratelimiter.ErrClosed)
		}
	})
}

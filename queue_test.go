package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Callers that come during a call share the next one.
func TestCallersWhoComeTogetherAskOnce(t *testing.T) {
	inCrowd(t, 1000, time.Second, func(c *crowd) {
		open := c.gate.shut()
		visits := []func() visit{}
		for range 101 {
			visits = append(visits, c.comes(c.Context(), 1, 0))
		}
		open()
		synctest.Wait()
		for i, visit := range visits {
			if v := visit(); !v.ok || v.err != nil {
				c.Errorf("caller %d: %v, %v", i, v.ok, v.err)
			}
		}
		if n := c.gate.count(); n != 2 {
			c.Errorf("%d calls, want one for the first and one for the 100 who came meanwhile", n)
		}
		if members, err := c.server.ZMembers("{l}:permits"); len(members) != 2 || err != nil {
			c.Errorf("%d records, want one for each call", len(members))
		}
	})
}

// Callers that share a call get the answers that the same requests get one by one,
// in their order.
func TestTogetherIsAsOneByOne(t *testing.T) {
	type ask struct {
		permits int64
		numbers bool
	}
	for seed := range uint64(60) {
		inCrowd(t, 20, time.Second, func(c *crowd) {
			random := rand.New(rand.NewPCG(seed, 0))
			alone := c.other()
			if err := alone.SetRate(c.Context(), overall, 20, time.Second); err != nil {
				c.Fatal(err)
			}
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
			value, err := c.server.Get("{l}:value")
			noError(c.T, err)

			if err := alone.SetRate(c.Context(), overall, 20, time.Second); err != nil {
				c.Fatal(err)
			}
			open, got := c.gate.shut(), make([]string, len(asks))
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
			if together, err := c.server.Get("{l}:value"); together != value || err != nil {
				c.Errorf("seed %d: value %s, one by one %s", seed, together, value)
			}
		})
	}
}

// Waiters are served first come, first served. Small requests do not overtake a
// large one.
func TestTheLineIsServedInOrder(t *testing.T) {
	inCrowd(t, 10, time.Second, func(c *crowd) {
		for range 10 {
			took(c.T, c.RateLimiter, 1, 0, 0)
			c.sleep(50 * time.Millisecond)
		}
		var visits []func() visit
		for _, permits := range []int64{1, 8, 1, 1, 2} { // at 500ms
			visits = append(visits, c.comes(c.Context(), permits, time.Minute))
		}
		c.sleep(5 * time.Second)
		// The first permit is back at 1s, eight more at 1.4s, two at 1.45s and 2s.
		want := []time.Duration{500, 900, 950, 1500, 1900}
		for i, visit := range visits {
			if v := visit(); !v.ok || v.err != nil || v.after != want[i]*time.Millisecond {
				c.Errorf("caller %d: %+v; want served after %v", i, v, want[i]*time.Millisecond)
			}
		}
	})
}

// A caller without a timeout takes what is there, also when others wait for more.
func TestWithoutATimeoutOneTakesWhatIsThere(t *testing.T) {
	inCrowd(t, 10, time.Second, func(c *crowd) {
		took(c.T, c.RateLimiter, 8, 0, 0)
		large := c.comes(c.Context(), 5, time.Minute)
		behind := c.comes(c.Context(), 1, time.Minute)
		took(c.T, c.RateLimiter, 1, 0, 0)
		synctest.Wait()
		if large().done || behind().done {
			c.Errorf("%+v, %+v: served before the permits were there", large(), behind())
		}
		c.sleep(time.Second)
		if !large().ok || !behind().ok {
			c.Errorf("%+v, %+v: want both served after a second", large(), behind())
		}
	})
}

// Only the head of the line asks, when its permits are due.
func TestAThousandWaitersAskSeldom(t *testing.T) {
	for name, gap := range map[string]time.Duration{"bursts": 0, "evenly": 10 * time.Millisecond} {
		inCrowd(t, 100, time.Second, func(c *crowd) {
			for range 100 {
				took(c.T, c.RateLimiter, 1, 0, 0)
				c.sleep(gap)
			}
			if gap == 0 {
				c.sleep(time.Millisecond)
			}
			visits := make([]func() visit, 1000)
			before := c.gate.count()
			for i := range visits {
				visits[i] = c.comes(c.Context(), 1, forAges)
			}
			c.sleep(11 * time.Second)
			for i, visit := range visits {
				if v := visit(); !v.ok || i > 0 && v.at.Before(visits[i-1]().at) {
					c.Fatalf("caller %d: %+v", i, v)
				}
			}
			most := 1100
			if gap == 0 {
				most = 20
			}
			if calls := c.gate.count() - before; calls > most {
				c.Errorf("%s: %d calls for 1,000 grants, want at most %d", name, calls, most)
			}
		})
	}
}

// A line that is too long for one call is probed in several.
func TestALineOfManyKinds(t *testing.T) {
	inCrowd(t, 1000, time.Hour, func(c *crowd) {
		took(c.T, c.RateLimiter, 1000, 0, 0)
		visits := make([]func() visit, 600)
		for i := range visits {
			visits[i] = c.comes(c.Context(), int64(1+i%2), forAges)
		}
		before := c.gate.count()
		if err := c.other().Release(c.Context(), 1000); err != nil {
			c.Fatal(err)
		}
		c.sleep(time.Second)
		for i, visit := range visits {
			if v := visit(); !v.ok || v.after > 0 {
				c.Fatalf("caller %d: %+v; want served at once", i, v)
			}
		}
		if calls := c.gate.count() - before; calls > 4 {
			c.Errorf("%d calls for 600 in line, want 3", calls)
		}
		c.holds(900)
	})
}

// Each timeout passes at its own time, wherever its caller stands.
func TestTimeoutsInLine(t *testing.T) {
	inCrowd(t, 1, time.Minute, func(c *crowd) {
		took(c.T, c.RateLimiter, 1, 0, 0)
		var visits []func() visit
		for _, timeout := range []time.Duration{3, 1, 2, 90} {
			visits = append(visits, c.comes(c.Context(), 1, timeout*time.Second))
		}
		c.sleep(2 * time.Minute)
		for i, want := range []time.Duration{3, 1, 2, 60} {
			if v := visits[i](); v.ok != (i == 3) || v.err != nil || v.after != want*time.Second {
				c.Errorf("caller %d: %+v; want answered after %ds", i, v, want)
			}
		}
	})
}

// A timeout passes on time also for a waiter so far behind in line that a call does
// not include it.
func TestATimeoutFarBehind(t *testing.T) {
	inCrowd(t, 1, time.Minute, func(c *crowd) {
		took(c.T, c.RateLimiter, 1, 0, 0)
		for range 10 {
			c.comes(c.Context(), 1, time.Hour)
		}
		behind := c.comes(c.Context(), 1, time.Second)
		c.comes(c.Context(), 1, time.Hour)
		c.sleep(time.Minute)
		if v := behind(); v.ok || v.err != nil || v.after != time.Second {
			c.Errorf("%+v; want refused after 1s", v)
		}
		if _, err := c.other().Delete(c.Context()); err != nil { // ends the others
			c.Fatal(err)
		}
	})
}

// Callers that want more than the rate get their error at once, wherever others
// stand. Those that wait for less stay.
func TestWhoWantsTooMuchDoesNotStandInLine(t *testing.T) {
	inCrowd(t, 5, time.Second, func(c *crowd) {
		took(c.T, c.RateLimiter, 5, 0, 0)
		waits := c.comes(c.Context(), 5, forAges)
		tooMuch := c.comes(c.Context(), 6, forAges)
		if !errors.Is(tooMuch().err, rratelimiter.ErrPermitsExceedRate) || tooMuch().after != 0 {
			c.Errorf("%+v; want ErrPermitsExceedRate at once", tooMuch())
		}
		if err := c.other().SetRate(c.Context(), overall, 4, time.Second,
			rratelimiter.WithKeepState()); err != nil {
			c.Fatal(err)
		}
		synctest.Wait()
		if !errors.Is(waits().err, rratelimiter.ErrPermitsExceedRate) || waits().after != 0 {
			c.Errorf("%+v; want ErrPermitsExceedRate when the rate is lowered", waits())
		}
	})
}

// What another process changes wakes the waiters.
func TestChangesElsewhereWakeTheLine(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
		"Release": func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Release(ctx, 2) },
		"SetRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			return l.SetRate(ctx, overall, 9, time.Hour)
		},
		"UpdateRate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.UpdateRate(ctx, overall, 9, time.Hour, rratelimiter.WithKeepState())
			return err
		},
		"Delete": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
			_, err := l.Delete(ctx)
			return err
		},
		"Rename": func(ctx context.Context, l *rratelimiter.RateLimiter) error { return l.Rename(ctx, "m") },
	} {
		inCrowd(t, 5, time.Hour, func(c *crowd) {
			other := c.other()
			took(c.T, c.RateLimiter, 5, 0, 0)
			waits := c.comes(c.Context(), 2, forAges)
			c.sleep(time.Second)
			if err := change(c.Context(), other); err != nil {
				c.Fatal(name, err)
			}
			synctest.Wait()
			gone := name == "Delete" || name == "Rename"
			if waits().ok == gone || errors.Is(waits().err, rratelimiter.ErrNotInitialized) != gone ||
				waits().after != time.Second {
				c.Errorf("%s: %+v; want answered at once", name, waits())
			}
		})
	}
}

// No waiter is forgotten when the Client is closed.
func TestCloseEndsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		l := client.RateLimiter("l")
		if err := l.SetRate(t.Context(), overall, 1, time.Hour); err != nil {
			t.Fatal(err)
		}
		took(t, l, 1, 0, 0)
		errs := make(chan error, 100)
		for range 100 {
			go func() { errs <- l.Acquire(context.Background(), 1) }()
		}
		synctest.Wait()
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := <-errs; !errors.Is(err, rratelimiter.ErrClosed) {
				t.Errorf("%v, want ErrClosed", err)
			}
		}
	})
}

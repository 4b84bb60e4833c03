package rratelimiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The timeout of an arrival passes before a batch has taken it. It is put in line
// then, and gets its last look.
func TestATimeoutOfAnArrival(t *testing.T) {
	inCrowd(t, 1, time.Hour, func(c *crowd) {
		took(c.T, c.RateLimiter, 1, 0, 0)
		open := c.gate.shut()
		for range 3 {
			c.comes(c.Context(), 1, forAges)
		}
		open()
		synctest.Wait()
		open = c.gate.shut()
		c.comes(c.Context(), 1, 0)
		v := c.comes(c.Context(), 1, 10*time.Millisecond)
		c.sleep(20 * time.Millisecond)
		open()
		synctest.Wait()
		if v := v(); v.ok || v.err != nil || v.after != 20*time.Millisecond {
			t.Errorf("%+v; want refused after 20ms", v)
		}
		noError(c.T, yes(c.other().Delete(c.Context()))) // ends the others
	})
}

// The head of the line leaves, and then Redis says nothing. What Redis has said of
// the head does not hold for those behind.
func TestWhatRedisHasSaidOfAnother(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		took(c.T, c.RateLimiter, 5, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		c.comes(ctx, 8, forAges)
		small := c.comes(c.Context(), 2, 2*time.Second)
		c.sleep(time.Second)
		open := c.gate.shut()
		cancel()
		c.sleep(2 * time.Second)
		if v := small(); !errors.Is(v.err, rratelimiter.ErrNoAnswer) || v.after != 2*time.Second+late {
			t.Errorf("%+v; want ErrNoAnswer after 2.03s", v)
		}
		open()
		c.sleep(time.Minute)
		c.holds(5)
	})
}

// Releases by Go cut a late wake-up short, and are no sign of a Java.
func TestReleasesDoNotMakeGoLate(t *testing.T) {
	const rate, interval = 20, 400 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)))
		defer c.Close()
		l := c.RateLimiter("l")
		noError(t, l.SetRate(t.Context(), overall, rate, interval))
		end := time.Now().Add(time.Minute)
		counts, net := make(chan int, 5), 0
		for range 4 {
			go func() { counts <- takeUntil(t, l, end) }()
		}
		go func() {
			n := 0
			for ; time.Now().Before(end); n-- {
				time.Sleep(90 * time.Millisecond)
				if err := l.Release(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
			counts <- n
		}()
		for range 5 {
			net += <-counts
		}
		if all := rate * int(time.Minute/interval); net < all*97/100 {
			t.Errorf("%d of %d permits were used", net, all)
		}
	})
}

// What a leaver of a merged call was granted is taken back, and nothing else is
// touched: the limiter stays.
func TestALimiterOutlivesAWithdrawal(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		open := c.leaver()
		open()
		c.sleep(time.Second)
		c.holds(3)
		if ttl := c.server.TTL("l"); ttl != 0 {
			c.Errorf("the limiter lives for %v; want for ever", ttl)
		}
	})
}

// It comes back also when a caller that was served together with it gives back
// first.
func TestALeaversShareComesBackAfterARelease(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		open := c.leaver()
		noError(c.T, c.other().Release(c.Context(), 2))
		open()
		c.sleep(time.Minute)
		c.holds(1)
	})
}

// A rate that is set anew, or a limiter that is made anew, frees what a leaver was
// granted. It is not given back once more, out of what others have taken since.
func TestALeaversShareIsNotGivenBackTwice(t *testing.T) {
	for format, opts := range map[string][]rratelimiter.Option{
		"default":    nil,
		"resolution": {rratelimiter.WithResolution(time.Minute)},
		"fI":         {rratelimiter.WithRedisson(fI)},
	} {
		for what, anew := range map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
			"rate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
				return l.SetRate(ctx, overall, 10, time.Hour)
			},
			"limiter": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
				return errors.Join(yes(l.Delete(ctx)), yes(l.TrySetRate(ctx, overall, 10, time.Hour)))
			},
		} {
			t.Run(format+"/"+what, func(t *testing.T) {
				inCrowd(t, 10, time.Hour, func(c *crowd) {
					client := rratelimiter.New(c.rdb, opts...)
					defer client.Close()
					c.RateLimiter = client.RateLimiter("l")
					open := c.leaver()
					other := c.other(opts...)
					noError(c.T, anew(c.Context(), other))
					took(c.T, other, 5, 0, 0)
					open()
					c.sleep(time.Second)
					c.holds(5)
					took(c.T, c.RateLimiter, 1, 0, 0)
					c.sleep(time.Minute)
					c.holds(6)
				})
			})
		}
	}
}

// A leaver costs nobody behind it a place, and what it stood in the way of is served
// at once.
func TestWhoLeavesMakesRoom(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		took(c.T, c.RateLimiter, 5, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		large := c.comes(ctx, 8, forAges)
		small := c.comes(c.Context(), 2, forAges)
		last := c.comes(c.Context(), 3, forAges)
		c.sleep(time.Second)
		if small().done {
			c.Fatalf("%+v: served before its turn", small())
		}
		cancel()
		synctest.Wait()
		if !errors.Is(large().err, context.Canceled) || !small().ok || !last().ok ||
			small().after != time.Second {
			c.Errorf("%+v, %+v, %+v; want the first gone and the others served at once", large(), small(),
				last())
		}
	})
}

// What is granted to a caller that has left meanwhile goes to the next in line.
func TestWhatNobodyWaitsForGoesToTheNext(t *testing.T) {
	inCrowd(t, 10, time.Second, func(c *crowd) {
		took(c.T, c.RateLimiter, 10, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		first := c.comes(ctx, 6, forAges)
		second := c.comes(c.Context(), 6, forAges)
		c.sleep(999 * time.Millisecond)
		open := c.gate.shut()
		c.sleep(time.Millisecond) // the probe is held
		cancel()
		synctest.Wait()
		if !errors.Is(first().err, context.Canceled) {
			c.Fatalf("%+v; want gone at once", first())
		}
		open()
		synctest.Wait()
		if !second().ok || second().after != time.Second {
			c.Errorf("%+v; want served with what was the first one's", second())
		}
		c.holds(6)
	})
}

// Where there is no next one, it goes back.
func TestWhatNobodyWantsGoesBack(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		open := c.leaver()
		open()
		synctest.Wait()
		c.holds(3)
	})
}

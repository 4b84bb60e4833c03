package charging_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The timeout of an arrival passes before a batch has taken it. It is put in line
// then, and gets its last look.
func TestATimeoutOfAnArrivalGetsItsLastLook(t *testing.T) {
	GatedBubble(t, 1, time.Hour, func(c *Limiter) {
		c.Took(1, 0, 0)
		open := c.Gate.Shut()
		for range 3 {
			c.Comes(c.Context(), 1, ForAges)
		}
		open()
		synctest.Wait()
		open = c.Gate.Shut()
		c.Comes(c.Context(), 1, 0)
		v := c.Comes(c.Context(), 1, 10*time.Millisecond)
		c.Sleep(20 * time.Millisecond)
		open()
		synctest.Wait()
		if v := v(); v.OK || v.Err != nil || v.After != 20*time.Millisecond {
			t.Errorf("%+v; want refused after 20ms", v)
		}
		NoError(c.T, Yes(c.Other().Delete(c.Context()))) // ends the others
	})
}

// The head of the line leaves, and then Redis says nothing. The result of
// the head does not hold for the callers behind.
func TestWhatRedisSaidOfTheHeadIsNoResultOfOthers(t *testing.T) {
	GatedBubble(t, 10, time.Hour, func(c *Limiter) {
		c.Took(5, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		c.Comes(ctx, 8, ForAges)
		small := c.Comes(c.Context(), 2, 2*time.Second)
		c.Sleep(time.Second)
		open := c.Gate.Shut()
		cancel()
		c.Sleep(2 * time.Second)
		if v := small(); !errors.Is(v.Err, rratelimiter.ErrNoAnswer) || v.After != 2*time.Second+Late {
			t.Errorf("%+v; want ErrNoAnswer after 2.03s", v)
		}
		open()
		c.Sleep(time.Minute)
		c.HasTaken(5)
	})
}

// Releases by Go cut a late wake-up short, and are no sign of a Java.
func TestReleasesDoNotMakeGoLate(t *testing.T) {
	const rate, interval, span = 20, 400 * time.Millisecond, 20 * time.Second
	Bubble(t, func(l *Limiter) {
		l.Want(l.SetRate(l.Context(), Overall, rate, interval))
		end := time.Now().Add(span)
		counts, net := make(chan int, 5), 0
		for range 4 {
			go func() { counts <- TakeUntil(l.T, l.RateLimiter, end) }()
		}
		go func() {
			n := 0
			for ; time.Now().Before(end); n-- {
				time.Sleep(90 * time.Millisecond)
				if err := l.Release(l.Context(), 1); err != nil {
					l.Error(err)
				}
			}
			counts <- n
		}()
		for range 5 {
			net += <-counts
		}
		if all := rate * int(span/interval); net < all*97/100 {
			l.Errorf("%d of %d permits were used", net, all)
		}
	})
}

// Permits granted to a leaver of a merged call come back also when a caller that was served together with
// it gives back first.
func TestALeaversShareComesBackAfterARelease(t *testing.T) {
	GatedBubble(t, 10, time.Hour, func(c *Limiter) {
		open := c.Leaver()
		NoError(c.T, c.Other().Release(c.Context(), 2))
		open()
		c.Sleep(time.Minute)
		c.HasTaken(1)
	})
}

// A rate that is set anew, or a limiter that is made anew, frees what a leaver was
// granted. It is not given back once more, out of permits taken since.
func TestALeaversShareIsNotGivenBackTwice(t *testing.T) {
	for format, opts := range map[string][]rratelimiter.Option{
		"default":    nil,
		"resolution": {rratelimiter.WithResolution(time.Minute)},
		"fI":         {rratelimiter.WithRedisson(FI)},
	} {
		for what, anew := range map[string]func(ctx context.Context, l *rratelimiter.RateLimiter) error{
			"rate": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
				return l.SetRate(ctx, Overall, 10, time.Hour)
			},
			"limiter": func(ctx context.Context, l *rratelimiter.RateLimiter) error {
				return errors.Join(Yes(l.Delete(ctx)), Yes(l.TrySetRate(ctx, Overall, 10, time.Hour)))
			},
		} {
			t.Run(format+"/"+what, func(t *testing.T) {
				GatedBubble(t, 10, time.Hour, func(c *Limiter) {
					client := rratelimiter.New(c.RDB, opts...)
					defer client.Close()
					c.RateLimiter = client.RateLimiter("l")
					open := c.Leaver()
					other := c.Other(opts...)
					NoError(c.T, anew(c.Context(), other.RateLimiter))
					other.Took(5, 0, 0)
					open()
					c.Sleep(time.Second)
					c.HasTaken(5)
					c.Took(1, 0, 0)
					c.Sleep(time.Minute)
					c.HasTaken(6)
				})
			})
		}
	}
}

// A leaver costs no caller behind it a place, and what it stood in the way of is served
// at once.
func TestALeaverMakesRoom(t *testing.T) {
	GatedBubble(t, 10, time.Hour, func(c *Limiter) {
		c.Took(5, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		large := c.Comes(ctx, 8, ForAges)
		small := c.Comes(c.Context(), 2, ForAges)
		last := c.Comes(c.Context(), 3, ForAges)
		c.Sleep(time.Second)
		if small().Done {
			c.Fatalf("%+v: served before its turn", small())
		}
		cancel()
		synctest.Wait()
		if !errors.Is(large().Err, context.Canceled) || !small().OK || !last().OK ||
			small().After != time.Second {
			c.Errorf("%+v, %+v, %+v; want the first gone and the others served at once", large(), small(),
				last())
		}
	})
}

// Permits granted to a caller that has left meanwhile go to the next in line.
func TestPermitsOfALeaverGoToTheNext(t *testing.T) {
	GatedBubble(t, 10, time.Second, func(c *Limiter) {
		c.Took(10, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		first := c.Comes(ctx, 6, ForAges)
		second := c.Comes(c.Context(), 6, ForAges)
		c.Sleep(999 * time.Millisecond)
		open := c.Gate.Shut()
		c.Sleep(time.Millisecond) // the probe is held
		cancel()
		synctest.Wait()
		if !errors.Is(first().Err, context.Canceled) {
			c.Fatalf("%+v; want gone at once", first())
		}
		open()
		synctest.Wait()
		if !second().OK || second().After != time.Second {
			c.Errorf("%+v; want served with what was the first one's", second())
		}
		c.HasTaken(6)
	})
}

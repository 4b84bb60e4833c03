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

// A timeout that passes before anybody has asked for the caller, who is then put
// in line: it gets its last look.
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
		if _, err := c.other().Delete(c.Context()); err != nil { // ends the others
			c.Fatal(err)
		}
	})
}

// The head of the line leaves, and then Redis says nothing: what it has said of
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

// Releases by Go cut a late wake-up short, and tell nothing of Java.
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
			go func() {
				n := 0
				for time.Now().Before(end) {
					if ok, err := l.TryAcquire(t.Context(), 1, 2*time.Second); ok && err == nil {
						n++
					}
				}
				counts <- n
			}()
		}
		go func() {
			n := 0
			for ; time.Now().Before(end); n-- {
				time.Sleep(90 * time.Millisecond)
				noError(t, l.Release(t.Context(), 1))
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

// What the leavers of a merged call were granted is taken back, and nothing
// else is touched: the limiter stays.
func TestALimiterOutlivesAWithdrawal(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		open := c.gate.shut()
		ctx, cancel := context.WithCancel(c.Context())
		c.comes(c.Context(), 1, 0)
		gone := c.comes(ctx, 4, 0)
		stays := c.comes(c.Context(), 2, 0)
		open()               // the call of the first one ...
		open = c.gate.shut() // ... and not that of the others
		synctest.Wait()
		cancel()
		synctest.Wait()
		open()
		c.sleep(time.Second)
		if !errors.Is(gone().err, context.Canceled) || !stays().ok {
			c.Errorf("%+v, %+v; want the first gone and the other served", gone(), stays())
		}
		c.holds(3)
		if ttl := c.server.TTL("l"); ttl != 0 {
			c.Errorf("the limiter lives for %v; want for ever", ttl)
		}
	})
}

// What a leaver was granted comes back also when somebody gives back first who
// was served together with it.
func TestALeaversShareComesBackAfterARelease(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		open := c.gate.shut()
		ctx, cancel := context.WithCancel(c.Context())
		c.comes(c.Context(), 1, 0)
		gone, stays := c.comes(ctx, 4, 0), c.comes(c.Context(), 2, 0)
		open()
		open = c.gate.shut()
		synctest.Wait()
		cancel()
		synctest.Wait()
		open()
		open = c.gate.shut() // the withdrawal takes its time
		synctest.Wait()
		if !errors.Is(gone().err, context.Canceled) || !stays().ok {
			c.Errorf("%+v, %+v; want the first gone and the other served", gone(), stays())
		}
		if err := c.other().Release(c.Context(), 2); err != nil {
			c.Fatal(err)
		}
		open()
		c.sleep(time.Minute)
		c.holds(1)
	})
}

// Who sets a rate anew, or makes the limiter anew, frees what a leaver was granted:
// it is not given back once more, out of what others have taken since.
func TestALeaversShareIsNotGivenBackTwice(t *testing.T) {
	for name, opts := range map[string][]rratelimiter.Option{
		"default": nil, "resolution": {rratelimiter.WithResolution(time.Minute)}, "fI": {rratelimiter.WithRecordFormat(rratelimiter.RecordFI)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, anew := range []bool{true, false} {
				inCrowd(t, 10, time.Hour, func(c *crowd) {
					client := rratelimiter.New(c.rdb, opts...)
					defer client.Close()
					c.RateLimiter = client.RateLimiter("l")
					open := c.gate.shut()
					ctx, cancel := context.WithCancel(c.Context())
					c.comes(c.Context(), 1, 0)
					gone := c.comes(ctx, 4, 0)
					c.comes(c.Context(), 1, 0)
					open()
					open = c.gate.shut()
					synctest.Wait()
					cancel()
					synctest.Wait()
					open()
					open = c.gate.shut() // what the leaver was granted is given back later
					synctest.Wait()
					if !errors.Is(gone().err, context.Canceled) {
						c.Fatalf("%+v", gone())
					}
					other := c.other(opts...)
					if anew {
						if err := other.SetRate(c.Context(), overall, 10, time.Hour); err != nil {
							c.Fatal(err)
						}
					} else {
						if _, err := other.Delete(c.Context()); err != nil {
							c.Fatal(err)
						}
						if ok, err := other.TrySetRate(c.Context(), overall, 10, time.Hour); !ok || err != nil {
							c.Fatal(ok, err)
						}
					}
					took(c.T, other, 5, 0, 0)
					open()
					c.sleep(time.Second)
					c.holds(5)
					took(c.T, c.RateLimiter, 1, 0, 0)
					c.sleep(time.Minute)
					c.holds(6)
				})
			}
		})
	}
}

// Somebody who leaves costs nobody behind him his place, and what he stood in
// the way of is served at once.
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
		if !errors.Is(large().err, context.Canceled) || !small().ok || !last().ok || small().after != time.Second {
			c.Errorf("%+v, %+v, %+v; want the first gone and the others served at once", large(), small(), last())
		}
	})
}

// What is granted to somebody who has left meanwhile goes to the next in line.
func TestWhatNobodyWaitsForGoesToTheNext(t *testing.T) {
	inCrowd(t, 10, time.Second, func(c *crowd) {
		took(c.T, c.RateLimiter, 10, 0, 0)
		ctx, cancel := context.WithCancel(c.Context())
		first := c.comes(ctx, 6, forAges)
		second := c.comes(c.Context(), 6, forAges)
		c.sleep(999 * time.Millisecond)
		open := c.gate.shut()
		c.sleep(time.Millisecond) // the line is asked for, and kept waiting
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

// And if there is no next, it goes back.
func TestWhatNobodyWantsGoesBack(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		open := c.gate.shut()
		ctx, cancel := context.WithCancel(c.Context())
		first := c.comes(c.Context(), 1, 0)
		gone := c.comes(ctx, 4, 0)
		stays := c.comes(c.Context(), 2, 0)
		open()               // the call of the first one ...
		open = c.gate.shut() // ... and not that of the others
		synctest.Wait()
		cancel()
		synctest.Wait()
		open()
		synctest.Wait()
		if !first().ok || !errors.Is(gone().err, context.Canceled) || !stays().ok {
			c.Errorf("%+v, %+v, %+v; want the one in the middle gone and the others served", first(), gone(), stays())
		}
		c.holds(3)
	})
}

package charging_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A call hangs, and its callers have left. Those that come later do not wait for it.
func TestACallThatHangsIsLeftAlone(t *testing.T) {
	GatedBubble(t, 10, time.Hour, func(c *Limiter) {
		hangs := make(chan struct{})
		c.Taps(map[int]chan struct{}{1: hangs}, nil)
		c.Comes(c.Context(), 1, 400*time.Millisecond)
		c.Sleep(300 * time.Millisecond)
		behind := c.Comes(c.Context(), 1, 5*time.Second)
		c.Sleep(10 * time.Second)
		if v := behind(); !v.OK || v.After > time.Second {
			t.Errorf("%+v; want served when the one before has left", v)
		}
		close(hangs)
		c.Sleep(time.Minute)
		c.HasTaken(1)
	})
}

// The reply of such a call comes while the next one judges the same line. What the
// call was granted is given back, and no caller gets two results.
func TestALateReplyOfAnAbandonedCallIsGivenBack(t *testing.T) {
	GatedBubble(t, 1, time.Second, func(c *Limiter) {
		first, probe := make(chan struct{}), make(chan struct{})
		c.Taps(nil, map[int]chan struct{}{1: first, 3: probe})
		c.Comes(c.Context(), 1, 100*time.Millisecond)
		c.Sleep(400 * time.Millisecond)
		waits := c.Comes(c.Context(), 1, ForAges)
		c.Sleep(700 * time.Millisecond) // its probe is under way
		close(first)
		synctest.Wait()
		close(probe)
		c.Sleep(200 * time.Millisecond)
		if !waits().OK {
			t.Errorf("%+v; want served", waits())
		}
		for i := range 5 {
			if v := c.Comes(c.Context(), 1, 0)(); v.OK || v.Err != nil {
				t.Errorf("caller %d: %+v; want refused", i, v)
			}
		}
	})
}

// A probe hangs, and its caller leaves. Those that come later are served, whatever
// becomes of the probe.
func TestTheLineIsServedAfterAProbeThatHangs(t *testing.T) {
	for _, onItsWayBack := range []bool{false, true} {
		GatedBubble(t, 1, time.Second, func(c *Limiter) {
			c.Took(1, 0, 0)
			c.Comes(c.Context(), 1, 1100*time.Millisecond)
			if _, err := c.Allow(c.Context(), 1); err != nil { // it makes the rate known
				c.Fatal(err)
			}
			c.Sleep(500 * time.Millisecond)
			hangs := make(chan struct{})
			held := map[int]chan struct{}{1: hangs} // the probe
			if onItsWayBack {
				c.Taps(nil, held)
			} else {
				c.Taps(held, nil)
			}
			_, err := c.Mini.ZAdd("{l}:permits", float64(time.Now().UnixMilli()),
				"\x10abcdefghijklmnop\x01\x00\x00\x00")
			NoError(c.T, err) // Java takes what is there at 1 s
			c.Sleep(4 * time.Second)
			behind := c.Comes(c.Context(), 1, ForAges)
			c.Sleep(5 * time.Second)
			close(hangs)
			c.Sleep(time.Minute)
			if v := behind(); !v.OK {
				c.Errorf("on its way back %v: %+v; want served", onItsWayBack, v)
			}
		})
	}
}

// Two consecutive calls hang. No caller waits behind those that have left.
func TestNoCallerWaitsBehindTwoCallsThatHang(t *testing.T) {
	GatedBubble(t, 1, time.Second, func(c *Limiter) {
		c.Want(ErrOf(c.Allow(c.Context(), 1)))
		first, second := make(chan struct{}), make(chan struct{})
		c.Taps(map[int]chan struct{}{2: first, 3: second}, nil)
		c.Comes(c.Context(), 1, 1100*time.Millisecond) // call 1, its probe is call 2
		c.Sleep(4 * time.Second)
		c.Comes(c.Context(), 1, time.Second) // call 3
		c.Sleep(4 * time.Second)
		third := c.Comes(c.Context(), 1, 3*time.Second)
		c.Sleep(5 * time.Second)
		if v := third(); !v.OK || v.After > 0 {
			t.Errorf("%+v; want served at once", v)
		}
		close(first)
		close(second)
		c.Sleep(time.Minute)
	})
}

// The head is refused and leaves at its timeout. That says nothing of those behind
// it, which want less.
func TestARefusalOfAnotherCallerIsNoResult(t *testing.T) {
	GatedBubble(t, 10, time.Hour, func(c *Limiter) {
		c.Took(5, 0, 0)
		hangs := make(chan struct{})
		c.Taps(map[int]chan struct{}{3: hangs}, nil) // 1: the first, 2: its last look
		c.Comes(c.Context(), 8, time.Second)
		behind := c.Comes(c.Context(), 2, 2*time.Second)
		c.Sleep(10 * time.Second)
		if v := behind(); !errors.Is(v.Err, rratelimiter.ErrNoAnswer) {
			t.Errorf("%+v; want ErrNoAnswer, for 5 permits are there", v)
		}
		close(hangs)
		c.Sleep(time.Minute)
	})
}

// A dial that times out is not the end of a context.
func TestADialThatTimesOutEndsNoContext(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Nanosecond}).DialContext(ctx, network, addr)
		}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := rratelimiter.New(rdb)
	defer c.Close()
	for _, err := range []error{
		c.RateLimiter("l").Acquire(context.Background(), 1),
		ErrOf(c.RateLimiter("l").Peek(context.Background())),
	} {
		WantErr(t, err, rratelimiter.ErrNoAnswer)
	}
}

// Permits are given back during Java's turn, after a timeout has passed.
func TestAReleaseInJavasTurnServesTheLine(t *testing.T) {
	BesideJava(t, func(c *Limiter) {
		c.Took(1, 0, 0)
		time.Sleep(900 * time.Millisecond)
		c.Took(9, 0, 0)
		c.Comes(c.Context(), 1, 120*time.Millisecond)
		waits := c.Comes(c.Context(), 1, ForAges)
		c.Sleep(105 * time.Millisecond) // it is Java's turn since 1 s
		c.Took(1, 0, 0)
		c.Sleep(40 * time.Millisecond) // the first was refused
		start := time.Now()
		NoError(c.T, c.Release(c.Context(), 3))
		c.Sleep(5 * time.Second)
		if after := waits().At.Sub(start); after > 100*time.Millisecond {
			c.Errorf("served %v after the release", after)
		}
	})
}

// The head leaves during Java's turn. The next one, which wants less, is served.
func TestALeaverInJavasTurnMakesRoom(t *testing.T) {
	BesideJava(t, func(c *Limiter) {
		c.Took(4, 0, 0)
		time.Sleep(900 * time.Millisecond)
		c.Took(6, 0, 0)
		c.Comes(c.Context(), 4, 120*time.Millisecond)
		ctx, cancel := context.WithCancel(c.Context())
		c.Comes(ctx, 4, ForAges)
		small := c.Comes(c.Context(), 1, ForAges)
		c.Sleep(105 * time.Millisecond)
		c.Took(1, 0, 0)                // 3 are left
		c.Sleep(25 * time.Millisecond) // the first was refused
		cancel()
		start := time.Now()
		c.Sleep(5 * time.Second)
		if after := small().At.Sub(start); !small().OK || after > 100*time.Millisecond {
			c.Errorf("%+v; want served within the turn", small())
		}
	})
}

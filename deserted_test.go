package rratelimiter_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A call hangs, and its callers have left. Those that come later do not wait for it.
func TestACallThatHangsIsLeftAlone(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		hangs := make(chan struct{})
		c.taps(map[int]chan struct{}{1: hangs}, nil)
		c.comes(c.Context(), 1, 400*time.Millisecond)
		c.sleep(300 * time.Millisecond)
		behind := c.comes(c.Context(), 1, 5*time.Second)
		c.sleep(10 * time.Second)
		if v := behind(); !v.ok || v.after > time.Second {
			t.Errorf("%+v; want served when the one before has left", v)
		}
		close(hangs)
		c.sleep(time.Minute)
		c.holds(1)
	})
}

// The reply of such a call comes while the next one judges the same line. What the
// call was granted is given back, and nobody gets two answers.
func TestALateReplyOfACallThatWasLeftAlone(t *testing.T) {
	inCrowd(t, 1, time.Second, func(c *crowd) {
		first, probe := make(chan struct{}), make(chan struct{})
		c.taps(nil, map[int]chan struct{}{1: first, 3: probe})
		c.comes(c.Context(), 1, 100*time.Millisecond)
		c.sleep(400 * time.Millisecond)
		waits := c.comes(c.Context(), 1, forAges)
		c.sleep(700 * time.Millisecond) // its probe is under way
		close(first)
		synctest.Wait()
		close(probe)
		c.sleep(200 * time.Millisecond)
		if !waits().ok {
			t.Errorf("%+v; want served", waits())
		}
		for i := range 5 {
			if v := c.comes(c.Context(), 1, 0)(); v.ok || v.err != nil {
				t.Errorf("caller %d: %+v; want refused", i, v)
			}
		}
	})
}

// A probe hangs, and its caller leaves. Those that come later are served, whatever
// becomes of the probe.
func TestTheLineAfterAProbeThatHangs(t *testing.T) {
	for _, onItsWayBack := range []bool{false, true} {
		inCrowd(t, 1, time.Second, func(c *crowd) {
			took(c.T, c.RateLimiter, 1, 0, 0)
			c.comes(c.Context(), 1, 1100*time.Millisecond)
			if _, err := c.Allow(c.Context(), 1); err != nil { // it makes the rate known
				c.Fatal(err)
			}
			c.sleep(500 * time.Millisecond)
			hangs := make(chan struct{})
			held := map[int]chan struct{}{1: hangs} // the probe
			if onItsWayBack {
				c.taps(nil, held)
			} else {
				c.taps(held, nil)
			}
			_, err := c.server.ZAdd("{l}:permits", float64(time.Now().UnixMilli()),
				"\x10abcdefghijklmnop\x01\x00\x00\x00")
			noError(c.T, err) // Java takes what is there at 1 s
			c.sleep(4 * time.Second)
			behind := c.comes(c.Context(), 1, forAges)
			c.sleep(5 * time.Second)
			close(hangs)
			c.sleep(time.Minute)
			if v := behind(); !v.ok {
				c.Errorf("on its way back %v: %+v; want served", onItsWayBack, v)
			}
		})
	}
}

// Two calls hang, one after the other. Nobody waits behind those that have left.
func TestTwoCallsThatHang(t *testing.T) {
	inCrowd(t, 1, time.Second, func(c *crowd) {
		if _, err := c.Allow(c.Context(), 1); err != nil {
			c.Fatal(err)
		}
		first, second := make(chan struct{}), make(chan struct{})
		c.taps(map[int]chan struct{}{2: first, 3: second}, nil)
		c.comes(c.Context(), 1, 1100*time.Millisecond) // call 1, its probe is call 2
		c.sleep(4 * time.Second)
		c.comes(c.Context(), 1, time.Second) // call 3
		c.sleep(4 * time.Second)
		third := c.comes(c.Context(), 1, 3*time.Second)
		c.sleep(5 * time.Second)
		if v := third(); !v.ok || v.after > 0 {
			t.Errorf("%+v; want served at once", v)
		}
		close(first)
		close(second)
		c.sleep(time.Minute)
	})
}

// The head is refused and leaves at its timeout. That says nothing of those behind
// it, which want less.
func TestARefusalOfAnotherIsNone(t *testing.T) {
	inCrowd(t, 10, time.Hour, func(c *crowd) {
		took(c.T, c.RateLimiter, 5, 0, 0)
		hangs := make(chan struct{})
		c.taps(map[int]chan struct{}{3: hangs}, nil) // 1: the first, 2: its last look
		c.comes(c.Context(), 8, time.Second)
		behind := c.comes(c.Context(), 2, 2*time.Second)
		c.sleep(10 * time.Second)
		if v := behind(); !errors.Is(v.err, rratelimiter.ErrNoAnswer) {
			t.Errorf("%+v; want ErrNoAnswer, for 5 permits are there", v)
		}
		close(hangs)
		c.sleep(time.Minute)
	})
}

// A dial that times out is not the end of a context.
func TestADialThatTimesOut(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Nanosecond}).DialContext(ctx, network, addr)
		}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := rratelimiter.New(rdb)
	defer c.Close()
	for _, err := range []error{
		c.RateLimiter("l").Acquire(context.Background(), 1),
		errOf(c.RateLimiter("l").Peek(context.Background())),
	} {
		if !errors.Is(err, rratelimiter.ErrNoAnswer) {
			t.Errorf("%v; want ErrNoAnswer", err)
		}
	}
}

// Permits are given back during Java's turn, after a timeout has passed.
func TestAReleaseInJavasTurn(t *testing.T) {
	besideJava(t, func(c *crowd) {
		took(c.T, c.RateLimiter, 1, 0, 0)
		time.Sleep(900 * time.Millisecond)
		took(c.T, c.RateLimiter, 9, 0, 0)
		c.comes(c.Context(), 1, 120*time.Millisecond)
		waits := c.comes(c.Context(), 1, forAges)
		c.sleep(105 * time.Millisecond) // it is Java's turn since 1 s
		took(c.T, c.RateLimiter, 1, 0, 0)
		c.sleep(40 * time.Millisecond) // the first was refused
		start := time.Now()
		noError(c.T, c.Release(c.Context(), 3))
		c.sleep(5 * time.Second)
		if after := waits().at.Sub(start); after > 100*time.Millisecond {
			c.Errorf("served %v after the release", after)
		}
	})
}

// The head leaves during Java's turn. The next one, which wants less, is served.
func TestALeaverInJavasTurn(t *testing.T) {
	besideJava(t, func(c *crowd) {
		took(c.T, c.RateLimiter, 4, 0, 0)
		time.Sleep(900 * time.Millisecond)
		took(c.T, c.RateLimiter, 6, 0, 0)
		c.comes(c.Context(), 4, 120*time.Millisecond)
		ctx, cancel := context.WithCancel(c.Context())
		c.comes(ctx, 4, forAges)
		small := c.comes(c.Context(), 1, forAges)
		c.sleep(105 * time.Millisecond)
		took(c.T, c.RateLimiter, 1, 0, 0) // 3 are left
		c.sleep(25 * time.Millisecond)    // the first was refused
		cancel()
		start := time.Now()
		c.sleep(5 * time.Second)
		if after := small().at.Sub(start); !small().ok || after > 100*time.Millisecond {
			c.Errorf("%+v; want served within the turn", small())
		}
	})
}

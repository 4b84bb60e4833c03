package rratelimiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The end of one caller's context, or of what was asked for it, is nobody
// else's: who comes after it gets an answer of its own.
func TestTheEndOfOneIsNotToldToOthers(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, 20*time.Second })
	c := rratelimiter.New(rdb)
	defer c.Close()
	l := c.RateLimiter("l")
	noError(t, l.SetRate(t.Context(), overall, 10, time.Hour))
	noError(t, errOf(l.Allow(t.Context(), 1)))
	for name, first := range map[string]func() error{
		"a timeout": func() error { return errOf(l.TryAcquire(context.Background(), 1, 400*time.Millisecond)) },
		"a context": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			return errOf(l.TryAcquire(ctx, 1, 0))
		},
	} {
		conn := rdb.Conn()
		noError(t, conn.Ping(t.Context()).Err()) // it has the only connection
		var all sync.WaitGroup
		all.Go(func() {
			if err := first(); !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		})
		time.Sleep(100 * time.Millisecond) // the first one waits for the connection
		all.Go(func() {
			if err := l.Acquire(context.Background(), 1); err != nil {
				t.Errorf("%s: the second: %v", name, err)
			}
		})
		time.Sleep(600 * time.Millisecond)
		noError(t, conn.Close())
		all.Wait()
	}
}

// One connection that hangs does not hold up those who come later.
func TestOneConnectionThatHangs(t *testing.T) {
	n := newLine(t, 10, time.Hour, func(o *redis.Options) { o.ReadTimeout = 20 * time.Second })
	n.proxy.HoldNext(1, isScript)
	start := time.Now()
	for granted := false; !granted; {
		ok, err := n.l.TryAcquire(t.Context(), 1, 100*time.Millisecond)
		if err != nil && !errors.Is(err, rratelimiter.ErrNoAnswer) {
			t.Fatal(err)
		}
		if granted = ok; time.Since(start) > 10*time.Second {
			t.Fatal("nothing is granted as long as one connection hangs")
		}
	}
}

// Who stands in line, and is refused by what Redis has said of those ahead, is
// told no when its timeout passes, also where Redis is slow.
func TestASlowRedisStillSaysNo(t *testing.T) {
	n := newLine(t, 1, time.Hour)
	n.l.takes(1)
	n.proxy.Delay(50 * time.Millisecond)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if ok, err := n.l.TryAcquire(context.Background(), 1, 600*time.Millisecond); ok || err != nil {
				t.Errorf("%v, %v; want refused", ok, err)
			}
		})
		time.Sleep(70 * time.Millisecond)
	}
	all.Wait()
}

// When replies are slow, the line is probed when its permits are due at Redis.
func TestASlowReplyDelaysNoProbe(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	c := rratelimiter.New(rdb, rratelimiter.WithGoOnly())
	defer c.Close()
	l := c.RateLimiter("l")
	noError(t, l.SetRate(t.Context(), overall, 1, time.Second))
	noError(t, errOf(l.Allow(t.Context(), 1)))
	p.Delay(400 * time.Millisecond)
	start := time.Now()
	ok, err := l.TryAcquire(t.Context(), 1, 5*time.Second)
	if took := time.Since(start); !ok || err != nil || took > 1700*time.Millisecond {
		t.Errorf("%v, %v after %v; want the permit, which is due after 1s, and a reply that takes 400ms", ok, err, took)
	}
	time.Sleep(time.Until(start.Add(1100 * time.Millisecond)))
	if ok, err := l.TryAcquire(t.Context(), 1, 1200*time.Millisecond); !ok && err == nil {
		t.Error("refused, though nobody knows: the permit was due within the timeout")
	}
}

// An answer of Redis to a slow call is not that of a call that hangs.
func TestASlowRefusalIsNotShared(t *testing.T) {
	n := newLine(t, 1, time.Hour)
	l := n.client.RateLimiter(redistest.Name(t))
	n.proxy.Delay(300 * time.Millisecond)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := l.TryAcquire(context.Background(), 1, 0); !errors.Is(err, rratelimiter.ErrNotInitialized) {
			t.Errorf("the first: %v; want ErrNotInitialized", err)
		}
	})
	time.Sleep(100 * time.Millisecond)
	noError(t, rratelimiter.New(n.look).RateLimiter(l.Name()).SetRate(t.Context(), overall, 1, time.Hour))
	noError(t, l.Acquire(context.Background(), 1))
	all.Wait()
}

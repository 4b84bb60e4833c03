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

// A limiter can be renamed while others use it with a resolution, by which each
// call writes to its hash.
func TestRenameInUseWithAResolution(t *testing.T) {
	n := newLine(t, 1<<40, time.Hour)
	n.proxy.Delay(2 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	c := rratelimiter.New(n.look, rratelimiter.WithResolution(time.Millisecond))
	defer c.Close()
	var group sync.WaitGroup
	l := c.RateLimiter(n.l.Name())
	for range 2 {
		group.Go(func() {
			for err := error(nil); err == nil; { // until it is gone
				_, err = l.TryAcquire(ctx, 1, 0)
			}
		})
	}
	if err := n.l.Rename(ctx, redistest.Name(t)); err != nil {
		t.Error(err)
	}
	cancel()
	group.Wait()
}

// A limiter can be renamed while it is in use.
func TestRenameInUse(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	slow := redis.NewClient(&redis.Options{Addr: p.Addr})
	t.Cleanup(func() { _ = slow.Close() })
	l := rratelimiter.New(slow).RateLimiter(redistest.Name(t))
	if err := l.SetRate(t.Context(), overall, 1<<40, time.Second); err != nil {
		t.Fatal(err)
	}
	p.Delay(2 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fast := rratelimiter.New(s.Client(t)).RateLimiter(l.Name())
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for { // until it is gone
				if _, err := fast.TryAcquire(ctx, 1, 0); err != nil {
					if !errors.Is(err, rratelimiter.ErrNotInitialized) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if err := l.Rename(ctx, redistest.Name(t)); err != nil {
		t.Error(err)
	}
	group.Wait()
}

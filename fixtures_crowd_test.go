package rratelimiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	forAges = 24 * time.Hour

	// late is how much later than its timeout a caller is answered where Redis
	// says nothing (docs of TryAcquire).
	late = 30 * time.Millisecond
)

// inBubble runs a spec in fake time: the clocks of server and client are the
// bubble's, and waiting takes no time.
func inBubble(t *testing.T, rate int64, interval time.Duration,
	spec func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis)) {
	t.Helper()
	bubble(t, func(c *crowd) {
		noError(c.T, c.SetRate(c.Context(), overall, rate, interval))
		spec(c.T, c.RateLimiter, c.server)
	}, rratelimiter.WithGoOnly())
}

// took expects permits to be granted after exactly that time.
func took(t *testing.T, l *rratelimiter.RateLimiter, permits int64, timeout, want time.Duration) {
	t.Helper()
	start := time.Now()
	ok, err := l.TryAcquire(t.Context(), permits, timeout)
	if got := time.Since(start); !ok || err != nil || got != want {
		t.Fatalf("acquire %d: %v, %v after %v; want true after %v", permits, ok, err, got, want)
	}
}

// A crowd is a limiter in a bubble. A spec starts its callers one by one.
type crowd struct {
	*testing.T
	*rratelimiter.RateLimiter
	client *rratelimiter.Client
	gate   *gate
	server *miniredis.Miniredis
	rdb    *redis.Client
}

// bubble runs a spec with a limiter of which no rate is set.
func bubble(t *testing.T, spec func(c *crowd), opts ...rratelimiter.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		client := rratelimiter.New(rdb, opts...)
		defer client.Close()
		spec(&crowd{t, client.RateLimiter("l"), client, &gate{}, m, rdb})
	})
}

// inCrowd runs a spec with a limiter whose scripts pass the gate.
func inCrowd(t *testing.T, rate int64, interval time.Duration, spec func(c *crowd)) {
	t.Helper()
	bubble(t, func(c *crowd) {
		noError(c.T, c.SetRate(c.Context(), overall, rate, interval))
		took(c.T, c.RateLimiter, 1, 0, 0) // the script is known from here on
		noError(c.T, c.Release(c.Context(), 1))
		c.rdb.AddHook(hook(c.gate.process))
		spec(c)
	}, rratelimiter.WithGoOnly())
}

// besideJava runs a spec with a limiter that gives way to Java.
func besideJava(t *testing.T, spec func(c *crowd)) {
	t.Helper()
	bubble(t, func(c *crowd) {
		noError(c.T, c.SetRate(c.Context(), overall, 10, time.Second))
		spec(c)
	})
}

// other is the limiter as another process sees it.
func (c *crowd) other(opts ...rratelimiter.Option) *rratelimiter.RateLimiter {
	client := rratelimiter.New(redistest.MiniClient(c.T, c.server), opts...)
	c.Cleanup(func() { _ = client.Close() })
	return client.RateLimiter("l")
}

// A visit is what has become of a caller so far.
type visit struct {
	ok    bool
	err   error
	after time.Duration // from when it came
	at    time.Time
	done  bool
}

// comes starts a caller, and returns when it has its answer or waits. The
// function that it returns tells what has become of the caller.
func (c *crowd) comes(ctx context.Context, permits int64, timeout time.Duration) func() visit {
	var mu sync.Mutex
	var v visit
	start := time.Now()
	go func() {
		ok, err := c.TryAcquire(ctx, permits, timeout)
		mu.Lock()
		defer mu.Unlock()
		v = visit{ok, err, time.Since(start), time.Now(), true}
	}()
	synctest.Wait()
	return func() visit {
		mu.Lock()
		defer mu.Unlock()
		return v
	}
}

// sleep lets time pass, and everything happen that is due then.
func (c *crowd) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// holds expects so many permits to be taken.
func (c *crowd) holds(permits int64) {
	c.Helper()
	r, err := c.Peek(c.Context())
	if err != nil || r.Limit-r.Remaining != permits {
		c.Errorf("%+v, %v; want %d permits taken", r, err, permits)
	}
}

// taps holds calls of the crowd, numbered from the next one on.
func (c *crowd) taps(requests, replies map[int]chan struct{}) {
	c.rdb.AddHook(hook((&tap{requests: requests, replies: replies}).process))
}

// leaver has three callers come. The first one asks for 1 permit. The other two
// share the next call, for 4 and for 2 permits, and the one that wants 4 leaves
// while their call is held. leaver expects it to be told so, and the others to
// be served. What its share goes through next is held until open is called.
func (c *crowd) leaver() (open func()) {
	c.Helper()
	open = c.gate.shut()
	ctx, cancel := context.WithCancel(c.Context())
	first := c.comes(c.Context(), 1, 0)
	gone := c.comes(ctx, 4, 0)
	stays := c.comes(c.Context(), 2, 0)
	others := c.gate.shut()
	open() // the call of the first one, and not that of the others
	synctest.Wait()
	cancel()
	synctest.Wait()
	if !errors.Is(gone().err, context.Canceled) || stays().done {
		c.Fatalf("%+v, %+v; want the one gone, and the other waiting for its reply", gone(), stays())
	}
	open = c.gate.shut() // the withdrawal
	others()
	synctest.Wait()
	if !first().ok || !stays().ok {
		c.Fatalf("%+v, %+v; want both served", first(), stays())
	}
	if r, err := c.other().Peek(c.Context()); err != nil || r.Limit-r.Remaining != 7 {
		c.Fatalf("%+v, %v; want 7 permits taken, those of the leaver among them", r, err)
	}
	return open
}

// takeUntil takes one permit after another until end, and returns how many it got.
func takeUntil(t *testing.T, l *rratelimiter.RateLimiter, end time.Time) (n int) {
	for time.Now().Before(end) {
		ok, err := l.TryAcquire(t.Context(), 1, 2*time.Second)
		if err != nil {
			t.Error(err)
		}
		if ok {
			n++
		}
	}
	return n
}

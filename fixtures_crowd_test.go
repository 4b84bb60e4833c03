package rratelimiter_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A crowd is a limiter in a bubble whose callers a spec starts one by one.
type crowd struct {
	*testing.T
	*rratelimiter.RateLimiter
	gate   *gate
	server *miniredis.Miniredis
	rdb    *redis.Client
}

func inCrowd(t *testing.T, rate int64, interval time.Duration, spec func(c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		client := rratelimiter.New(rdb, rratelimiter.WithGoOnly())
		defer client.Close()
		c := &crowd{t, client.RateLimiter("l"), &gate{}, m, rdb}
		if err := c.SetRate(t.Context(), overall, rate, interval); err != nil {
			t.Fatal(err)
		}
		took(t, c.RateLimiter, 1, 0, 0) // the script is known from here on
		if err := c.Release(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		rdb.AddHook(c.gate)
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

// comes starts a caller, waits until it has asked or stands where it waits, and
// returns what tells what has become of it.
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

// sleep lets time pass, and everybody do what is due then.
func (c *crowd) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

const forAges = 24 * time.Hour

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
	c.rdb.AddHook(&tap{requests: requests, replies: replies})
}

// inTurn is a crowd that gives way to Java.
func inTurn(t *testing.T, spec func(c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		client := rratelimiter.New(rdb)
		defer client.Close()
		c := &crowd{t, client.RateLimiter("l"), &gate{}, m, rdb}
		is(t, nil, c.SetRate(t.Context(), overall, 10, time.Second))
		spec(c)
	})
}

// late is how much later than its timeout a caller is answered where Redis says
// nothing (docs of TryAcquire).
const late = 30 * time.Millisecond

// inBubble runs a spec in fake time: the server's clock and ours are the
// bubble's, and waiting takes no time.
func inBubble(t *testing.T, rate int64, interval time.Duration, spec func(t *testing.T, l *rratelimiter.RateLimiter, m *miniredis.Miniredis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		c := rratelimiter.New(redistest.MiniClient(t, m), rratelimiter.WithGoOnly())
		defer c.Close()
		l := c.RateLimiter("l")
		if err := l.SetRate(t.Context(), overall, rate, interval); err != nil {
			t.Fatal(err)
		}
		spec(t, l, m)
	})
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

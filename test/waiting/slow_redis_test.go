package waiting_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The end of one caller's context or timeout is not the end of the next caller:
// the next caller gets a result of its own.
func TestTheEndOfOneCallerIsNoResultOfOthers(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, 20*time.Second })
	c := rratelimiter.New(rdb)
	defer c.Close()
	l := c.RateLimiter("l")
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	NoError(t, ErrOf(l.Allow(t.Context(), 1)))
	for name, first := range map[string]func(ctx context.Context) error{
		"a timeout": func(ctx context.Context) error {
			return ErrOf(l.TryAcquire(ctx, 1, 400*time.Millisecond))
		},
		"a context": func(ctx context.Context) error { return ErrOf(l.TryAcquire(ctx, 1, 0)) },
	} {
		conn := rdb.Conn()
		NoError(t, conn.Ping(t.Context()).Err()) // it has the only connection
		ctx := t.Context()
		if name == "a context" {
			ctx = TimeLimit(t, 400*time.Millisecond)
		}
		firstIn, secondIn := Arriving(ctx), Arriving(t.Context())
		told, answered := make(chan error, 1), make(chan error, 1)
		go func() { told <- first(firstIn) }()
		Receive(t, firstIn.Came)
		go func() { answered <- l.Acquire(secondIn, 1) }()
		Receive(t, secondIn.Came)
		err := Receive(t, told)
		if !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if len(answered) > 0 {
			t.Fatalf("%s: the second was answered without a connection: %v", name, <-answered)
		}
		NoError(t, conn.Close())
		if err := Receive(t, answered); err != nil {
			t.Errorf("%s: the second: %v", name, err)
		}
	}
}

// One connection that hangs does not hold up those that come later.
func TestOneConnectionThatHangsDelaysNoOther(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) { o.ReadTimeout = 20 * time.Second })
	n.Proxy.HoldNext(1, IsScript)
	start := time.Now()
	for granted := false; !granted; {
		ok, err := n.TryAcquire(t.Context(), 1, 100*time.Millisecond)
		if err != nil && !errors.Is(err, rratelimiter.ErrNoAnswer) {
			t.Fatal(err)
		}
		if granted = ok; time.Since(start) > 10*time.Second {
			t.Fatal("nothing is granted as long as one connection hangs")
		}
	}
	if n.Proxy.Held() != 1 {
		t.Error("no connection hangs")
	}
}

// slow makes each script of a Client take so long on its way to Redis, and as long
// on its way back.
func slow(c *Limiter, d time.Duration) {
	c.RDB.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		time.Sleep(d)
		defer time.Sleep(d)
		return next(ctx, cmd)
	}))
}

// A waiter that is refused by what Redis has said of those ahead gets its no when
// its timeout passes, also where Redis is slow.
func TestASlowRedisStillSaysNo(t *testing.T) {
	GatedBubble(t, 1, time.Hour, func(c *Limiter) {
		c.Took(1, 0, 0)
		slow(c, 50*time.Millisecond)
		var visits []func() Visit
		for range 6 {
			visits = append(visits, c.Comes(c.Context(), 1, 600*time.Millisecond))
			c.Sleep(70 * time.Millisecond)
		}
		c.Sleep(time.Second)
		for i, visit := range visits {
			if v := visit(); !v.Done || v.OK || v.Err != nil || v.After > 600*time.Millisecond+Late {
				c.Errorf("caller %d: %+v; want refused after 600ms", i, v)
			}
		}
	})
}

// When replies are slow, the line is probed when its permits are due at Redis.
func TestASlowReplyDelaysNoProbe(t *testing.T) {
	GatedBubble(t, 1, time.Second, func(c *Limiter) {
		c.Took(1, 0, 0)
		slow(c, 200*time.Millisecond)
		waits := c.Comes(c.Context(), 1, 5*time.Second)
		c.Sleep(5 * time.Second)
		if v := waits(); !v.OK || v.Err != nil || v.After < time.Second || v.After > 1400*time.Millisecond {
			c.Errorf("%+v; want the permit, which is due after 1s, and a reply that takes 400ms", v)
		}
		unknown := c.Comes(c.Context(), 1, 1200*time.Millisecond)
		c.Sleep(5 * time.Second)
		if v := unknown(); !v.Done || !v.OK && v.Err == nil {
			c.Errorf("%+v; refused, though that is unknown: the permit was due within the timeout", v)
		}
	})
}

// The reply of Redis to a slow call is not that of a call that hangs: the next
// caller gets one of its own.
func TestASlowRefusalIsNotShared(t *testing.T) {
	Bubble(t, func(c *Limiter) {
		if _, err := c.Allow(c.Context(), 1); !errors.Is(err, rratelimiter.ErrNotInitialized) {
			c.Fatal(err) // the script is known from here on
		}
		slow(c, 300*time.Millisecond)
		first := c.Comes(c.Context(), 1, 0)
		c.Sleep(400 * time.Millisecond) // Redis has answered, and the reply is on its way
		NoError(c.T, c.Other().SetRate(c.Context(), Overall, 1, time.Hour))
		second := c.Comes(c.Context(), 1, ForAges)
		if first().Done {
			c.Fatalf("%+v: no call is under way when the second comes", first())
		}
		c.Sleep(10 * time.Second)
		if v := first(); !errors.Is(v.Err, rratelimiter.ErrNotInitialized) {
			c.Errorf("the first: %+v; want ErrNotInitialized", v)
		}
		if v := second(); !v.OK || v.Err != nil {
			c.Errorf("the second: %+v; want served", v)
		}
	})
}

package redistest_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMini(t *testing.T) {
	m := redistest.Mini(t)
	a, b := redistest.MiniClient(t, m), redistest.MiniClient(t, m, func(o *redis.Options) { o.DB = 1 })
	a.Set(t.Context(), "k", "v", 0)
	if got, err := m.Get("k"); got != "v" || err != nil {
		t.Errorf("the server has %q, %v", got, err)
	}
	if err := b.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("mods were not applied: %v", err)
	}
}

// Everything that a limiter does with a client must work in a bubble and leave no
// goroutine there: synctest would panic. The test runs twice, because go-redis
// shares things between clients that must not get from one bubble to the next.
func TestMiniInBubble(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			m := redistest.Mini(t)
			c := redistest.MiniClient(t, m)
			expireInBubble(t, c)
			subscribeInBubble(t, c)
			crowdInBubble(t, c)
			pipelineInBubble(t, c)
		})
	}
}

func expireInBubble(t *testing.T, c *redis.Client) {
	c.Set(t.Context(), "k", "v", time.Hour)
	time.Sleep(59 * time.Minute) // of the bubble's time
	if got := c.TTL(t.Context(), "k").Val(); got != time.Minute {
		t.Errorf("after 59 of 60 minutes %v are left", got)
	}
	time.Sleep(time.Minute)
	if n := c.Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("the key did not expire")
	}
}

func subscribeInBubble(t *testing.T, c *redis.Client) {
	sub := c.Subscribe(t.Context(), "ch")
	defer sub.Close()
	ch := sub.Channel()
	synctest.Wait()
	c.Publish(t.Context(), "ch", "hello")
	if msg := <-ch; msg.Payload != "hello" {
		t.Errorf("the message is %v", msg)
	}
}

func crowdInBubble(t *testing.T, c *redis.Client) {
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { c.BLPop(t.Context(), time.Second, "nothing") })
	}
	wg.Wait()
	script := redis.NewScript("return redis.call('incr', KEYS[1])")
	for range 200 {
		wg.Go(func() { script.Run(t.Context(), c, []string{"n"}) })
	}
	wg.Wait()
	if n, err := c.Get(t.Context(), "n").Int(); n == 0 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	c.Del(t.Context(), "n")
}

func pipelineInBubble(t *testing.T, c *redis.Client) {
	pipe := c.Pipeline()
	for range 100 {
		pipe.Incr(t.Context(), "n")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Error(err)
	}
}

// Closing ends a call that still waits when the test ends.
func TestMiniClientClosedWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		c := redistest.MiniClient(t, m)
		go c.BLPop(t.Context(), 0, "nothing")
		synctest.Wait()
	})
}

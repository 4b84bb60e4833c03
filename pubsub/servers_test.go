package pubsub_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// fakeCluster is a client whose masters a test chooses.
type fakeCluster struct {
	redis.UniversalClient

	mu      sync.Mutex
	masters []*redis.Client
	err     error
	looks   int
	during  func() // a look
}

func (c *fakeCluster) ForEachMaster(ctx context.Context,
	see func(context.Context, *redis.Client) error) error {
	c.mu.Lock()
	c.looks++
	masters, err := c.masters, c.err
	c.mu.Unlock()
	if c.during != nil {
		c.during()
	}
	for _, master := range masters {
		err = errors.Join(err, see(ctx, master))
	}
	return err
}

func (c *fakeCluster) set(err error, masters ...*redis.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.masters, c.err, c.looks = masters, err, 0
}

func (c *fakeCluster) looked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// hears expects that exactly these of the servers have a subscription of a.
func hears(t *testing.T, when string, servers map[*miniredis.Miniredis]bool) {
	t.Helper()
	synctest.Wait()
	for s, want := range servers {
		if n := s.PubSubNumSub("a")["a"]; n > 1 || (n == 1) != want {
			t.Errorf("%s: %d subscriptions, want one: %v", when, n, want)
		}
		if n := s.CurrentConnectionCount(); n > 1 || (n == 1) != want {
			t.Errorf("%s: %d connections, want one: %v", when, n, want)
		}
	}
}

func TestEventsFollowTheMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := redistest.Mini(t), redistest.Mini(t)
		clientOne, clientTwo := redistest.MiniClient(t, one), redistest.MiniClient(t, two)
		rdb := &fakeCluster{}
		h := newHub(t, rdb)

		rdb.set(errors.New("unknown"), clientOne)
		events, cancel := h.Events("a")
		time.Sleep(time.Minute)
		hears(t, "while it fails", map[*miniredis.Miniredis]bool{one: false, two: false})
		if n := rdb.looked(); n < 15 || n > 50 {
			t.Errorf("%d looks in a minute that fail", n)
		}

		rdb.set(nil, clientOne)
		time.Sleep(3200 * time.Millisecond)
		hears(t, "found", map[*miniredis.Miniredis]bool{one: true, two: false})

		rdb.set(errors.New("unknown"))
		time.Sleep(time.Minute)
		hears(t, "it fails again", map[*miniredis.Miniredis]bool{one: true, two: false})

		rdb.set(nil, clientOne, clientTwo)
		time.Sleep(11 * time.Second)
		hears(t, "one more", map[*miniredis.Miniredis]bool{one: true, two: true})
		silent(t, events, "changes of the cluster")
		for _, s := range []*miniredis.Miniredis{one, two} {
			s.Publish("a", "x")
			woken(t, events, "event")
		}

		rdb.set(nil, clientTwo)
		time.Sleep(11 * time.Second)
		hears(t, "another one", map[*miniredis.Miniredis]bool{one: false, two: true})
		if n := rdb.looked(); n > 2 {
			t.Errorf("%d looks in 11 s", n)
		}

		rdb.set(nil, clientOne)
		two.Close()
		time.Sleep(time.Second)
		hears(t, "a connection is lost", map[*miniredis.Miniredis]bool{one: true})

		cancel()
		time.Sleep(10 * time.Second)
		hears(t, "cancelled", map[*miniredis.Miniredis]bool{one: false})
	})
}

// The connection is made for a subscriber that has left meanwhile. The bubble fails
// the test if it stays.
func TestCancelWhileTheMastersAreLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := &fakeCluster{masters: []*redis.Client{redistest.MiniClient(t, m)}}
		look := make(chan struct{})
		rdb.during = func() { <-look }
		_, cancel := pubsub.New(rdb).Events("a")
		synctest.Wait()
		cancel()
		close(look)
		time.Sleep(10 * time.Second)
		hears(t, "cancelled", map[*miniredis.Miniredis]bool{m: false})
	})
}

func TestConfirmedWaitsForEachServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, late := redistest.Mini(t), redistest.Mini(t)
		ready := make(chan struct{})
		rdb := &fakeCluster{masters: []*redis.Client{
			redistest.MiniClient(t, up),
			redistest.MiniClient(t, late, dialing(func(context.Context) (net.Conn, error) {
				<-ready
				return late.Dial()
			})),
		}}
		h := newHub(t, rdb)
		events := subscribed(t, h.Events, "a")
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := h.Confirmed(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("one server has not confirmed: %v", err)
		}
		time.AfterFunc(time.Second, func() { close(ready) })
		start := time.Now()
		for range 2 { // the second time it knows
			if err := h.Confirmed(t.Context(), "a"); err != nil || time.Since(start) != time.Second {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
		}
		for _, s := range []*miniredis.Miniredis{up, late} {
			silent(t, events, "confirmed")
			s.Publish("a", "x")
			woken(t, events, "event")
		}
		h.Close()
		if err := h.Confirmed(t.Context(), "a"); err == nil {
			t.Fatal("no error of a closed hub")
		}
	})
}

func TestConfirmedDoesNotWaitForAServerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, down := redistest.MiniClient(t, redistest.Mini(t)),
			redistest.MiniClient(t, redistest.Mini(t), dialing(
				func(context.Context) (net.Conn, error) { return nil, errors.New("refused") }))
		rdb := &fakeCluster{masters: []*redis.Client{up, down}}
		h := newHub(t, rdb)
		subscribed(t, h.Events, "a")
		time.AfterFunc(time.Minute, func() { rdb.set(nil, up) })
		ctx, end := context.WithTimeout(t.Context(), 75*time.Second)
		defer end()
		if err := h.Confirmed(ctx, "a"); err != nil || time.Since(bubbleStart) < time.Minute {
			t.Fatalf("%v after %v", err, time.Since(bubbleStart))
		}
	})
}

func TestSubscribeFollowsTheShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := redistest.Mini(t), redistest.Mini(t)
		rdb := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"first": "one"},
			NewClient: func(o *redis.Options) *redis.Client {
				return redistest.MiniClient(t, map[string]*miniredis.Miniredis{"one": one,
					"two": two}[o.Addr])
			},
			HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
		})
		t.Cleanup(func() { _ = rdb.Close() })
		h := newHub(t, rdb)
		wake := heard(t, h, "a")
		hears(t, "at first", map[*miniredis.Miniredis]bool{one: true, two: false})
		rdb.SetAddrs(map[string]string{"first": "one", "second": "two"})
		woken(t, wake, "there is another shard")
		hears(t, "another", map[*miniredis.Miniredis]bool{one: true, two: true})
		for _, s := range []*miniredis.Miniredis{one, two} {
			s.Publish("a", "x")
			woken(t, wake, "message")
		}
		rdb.SetAddrs(map[string]string{"second": "two"})
		time.Sleep(11 * time.Second)
		hears(t, "one is gone", map[*miniredis.Miniredis]bool{one: false, two: true})
	})
}

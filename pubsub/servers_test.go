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

// hears expects that exactly these of the servers have a subscription of a, and a connection.
func hears(t *testing.T, when string, servers []*miniredis.Miniredis, want ...bool) {
	t.Helper()
	synctest.Wait()
	for i, want := range want {
		n, connections := servers[i].PubSubNumSub("a")["a"], servers[i].CurrentConnectionCount()
		if n != connections || n > 1 || (n == 1) != want {
			t.Errorf("%s: server %d has %d subscriptions and %d connections, want one: %v",
				when, i, n, connections, want)
		}
	}
}

// eachWakes publishes on each of the servers, and expects a signal.
func eachWakes(t *testing.T, wake <-chan struct{}, servers []*miniredis.Miniredis) {
	t.Helper()
	for _, s := range servers {
		s.Publish("a", "x")
		woken(t, "message", wake)
	}
}

// inBubbleOfTwo runs a spec in fake time, with two servers and their clients.
func inBubbleOfTwo(t *testing.T, spec func(*testing.T, []*miniredis.Miniredis, []*redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		servers := []*miniredis.Miniredis{redistest.Mini(t), redistest.Mini(t)}
		clients := []*redis.Client{
			redistest.MiniClient(t, servers[0]), redistest.MiniClient(t, servers[1]),
		}
		spec(t, servers, clients)
	})
}

func TestEventsFollowTheMasters(t *testing.T) {
	inBubbleOfTwo(t, func(t *testing.T, servers []*miniredis.Miniredis, clients []*redis.Client) {
		rdb := &fakeCluster{}
		h := newHub(t, rdb)
		unknown := errors.New("unknown")

		rdb.set(unknown, clients[0])
		events, cancel := h.Events("a")
		time.Sleep(time.Minute)
		hears(t, "while it fails", servers, false, false)
		if n := rdb.looked(); n < 15 || n > 50 {
			t.Errorf("%d looks in a minute that fail", n)
		}
		for _, step := range []struct {
			when    string
			err     error
			masters []*redis.Client
			after   time.Duration
			want    []bool
		}{
			{"found", nil, clients[:1], 3200 * time.Millisecond, []bool{true, false}},
			{"it fails again", unknown, nil, time.Minute, []bool{true, false}},
			{"one more", nil, clients, 11 * time.Second, []bool{true, true}},
			{"another one", nil, clients[1:], 11 * time.Second, []bool{false, true}},
		} {
			rdb.set(step.err, step.masters...)
			time.Sleep(step.after)
			hears(t, step.when, servers, step.want...)
			silent(t, "changes of the cluster", events)
			if len(step.masters) == 2 {
				eachWakes(t, events, servers)
			}
		}
		if n := rdb.looked(); n > 2 {
			t.Errorf("%d looks in 11 s", n)
		}
		rdb.set(nil, clients[0])
		servers[1].Close()
		time.Sleep(time.Second)
		hears(t, "a connection is lost", servers, true)
		cancel()
		time.Sleep(10 * time.Second)
		hears(t, "cancelled", servers, false)
	})
}

// The connection is made for a subscriber that has left meanwhile. The bubble fails the test if it stays.
func TestCancelWhileTheMastersAreLookedUp(t *testing.T) {
	inBubbleOfTwo(t, func(t *testing.T, servers []*miniredis.Miniredis, clients []*redis.Client) {
		look := make(chan struct{})
		rdb := &fakeCluster{masters: clients, during: func() { <-look }}
		_, cancel := pubsub.New(rdb).Events("a")
		synctest.Wait()
		cancel()
		close(look)
		time.Sleep(10 * time.Second)
		hears(t, "cancelled", servers, false, false)
	})
}

// Confirmed waits for a server that comes after a second, but not for one that the client no longer has.
func TestConfirmedWaitsForEachServer(t *testing.T) {
	inBubbleOfTwo(t, func(t *testing.T, servers []*miniredis.Miniredis, clients []*redis.Client) {
		ready := make(chan struct{})
		late := redistest.MiniClient(t, servers[1], dialing(func(context.Context) (net.Conn, error) {
			<-ready
			return servers[1].Dial()
		}))
		rdb := &fakeCluster{masters: []*redis.Client{clients[0], late}}
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
		silent(t, "confirmed", events)
		eachWakes(t, events, servers)

		rdb.set(nil, clients[0], redistest.MiniClient(t, servers[1], dialing(refused)))
		time.Sleep(11 * time.Second)
		start = time.Now()
		time.AfterFunc(time.Minute, func() { rdb.set(nil, clients[0]) })
		ctx, end = context.WithTimeout(t.Context(), 75*time.Second)
		defer end()
		if err := h.Confirmed(ctx, "a"); err != nil || time.Since(start) < time.Minute {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		h.Close()
		if err := h.Confirmed(t.Context(), "a"); err == nil {
			t.Fatal("no error of a closed hub")
		}
	})
}

func TestSubscribeFollowsTheShards(t *testing.T) {
	inBubbleOfTwo(t, func(t *testing.T, servers []*miniredis.Miniredis, clients []*redis.Client) {
		rdb := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"first": "one"},
			NewClient: func(o *redis.Options) *redis.Client {
				return map[string]*redis.Client{"one": clients[0], "two": clients[1]}[o.Addr]
			},
			HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
		})
		t.Cleanup(func() { _ = rdb.Close() })
		wake := heard(t, newHub(t, rdb), "a")
		hears(t, "at first", servers, true, false)
		rdb.SetAddrs(map[string]string{"first": "one", "second": "two"})
		woken(t, "there is another shard", wake)
		hears(t, "another", servers, true, true)
		eachWakes(t, wake, servers)
		rdb.SetAddrs(map[string]string{"second": "two"})
		time.Sleep(11 * time.Second)
		hears(t, "one is gone", servers, false, true)
	})
}

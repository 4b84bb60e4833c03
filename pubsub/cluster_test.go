package pubsub_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// keysOn returns a key for each of servers that lives there.
func keysOn(t *testing.T, servers []*redistest.Server) []string {
	t.Helper()
	keys := make([]string, len(servers))
	for i, s := range servers {
		for n := 0; keys[i] == ""; n++ {
			key := fmt.Sprint("key ", n)
			if s.Admin().Set(t.Context(), key, "v", 0).Err() == nil {
				keys[i] = key
			}
		}
	}
	return keys
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(1),
		redistest.WithArgs("--notify-keyspace-events", "KEA"))
	h := newHub(t, c.Client(t))
	keys := keysOn(t, c.Servers[:3])
	wake := heard(t, h, "a")
	heard(t, h, "b")
	total := func() (n int) {
		for _, s := range c.Servers {
			n += connections(t, s)
		}
		return n
	}
	if n := total(); n != 1 {
		t.Errorf("%d connections for what is published", n)
	}
	for _, s := range c.Servers {
		publish(t, s, "a")
		woken(t, wake, "published on "+s.Addr)
	}

	var events []<-chan struct{}
	for _, key := range keys {
		event := subscribed(t, h.Events, "__keyspace@0__:"+key, "del")
		events = append(events, event)
		for _, s := range c.Servers[:3] {
			redistest.Eventually(t, "subscribed on each master", func() bool {
				return subscriptions(t, s, "__keyspace@0__:"+key) == 1
			})
		}
	}
	if n := total(); n != 4 {
		t.Errorf("%d connections, want one for what is published and three for events", n)
	}
	for i, s := range c.Servers[:3] {
		s.Admin().Del(t.Context(), keys[i])
		woken(t, events[i], "del on "+s.Addr)
	}

	old, promoted := c.Servers[0], c.Servers[3]
	old.Stop()
	redistest.NoError(t, promoted.Admin().Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err())
	redistest.Eventually(t, "subscribed on the new master", func() bool {
		return subscriptions(t, promoted, "__keyspace@0__:"+keys[0]) >= 1
	})
	redistest.Eventually(t, "del on the new master", func() bool {
		promoted.Admin().Set(t.Context(), keys[0], "v", 0)
		promoted.Admin().Del(t.Context(), keys[0])
		return len(events[0]) == 1
	})
	redistest.Eventually(t, "message by way of the new master", func() bool {
		publish(t, promoted, "a")
		return len(wake) == 1
	})
}

func TestRing(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{
		redistest.Start(t, "--notify-keyspace-events", "KEA"),
		redistest.Start(t, "--notify-keyspace-events", "KEA"),
	}
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": servers[0].Addr,
		"two": servers[1].Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	h := newHub(t, rdb)
	wake, cancel := h.Subscribe("a")
	messages, cancelMessages := h.Events("a") // the same, without what is announced
	events, cancelEvents := h.Events("__keyspace@0__:key", "del")
	for _, s := range servers {
		redistest.Eventually(t, "subscribed on each shard", func() bool {
			return subscriptions(t, s, "a") == 1 && subscriptions(t, s, "__keyspace@0__:key") == 1
		})
		if n := connections(t, s); n != 1 {
			t.Errorf("%d connections to a shard", n)
		}
		publish(t, s, "a")
		woken(t, messages, "published on "+s.Addr)
		s.Admin().Set(t.Context(), "key", "v", 0)
		s.Admin().Del(t.Context(), "key")
		woken(t, events, "del on "+s.Addr)
	}
	woken(t, wake, "confirmed, and messages")
	for _, s := range servers {
		publish(t, s, "a")
		woken(t, wake, "published on "+s.Addr)
	}
	cancel()
	cancelMessages()
	cancelEvents()
	for _, s := range servers {
		redistest.Eventually(t, "no connection left", func() bool { return connections(t, s) == 0 })
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, "--notify-keyspace-events", "KEA")
	h := newHub(t, s.Client(t))
	wake := subscribed(t, h.Subscribe, "a")
	events := subscribed(t, h.Events, "__keyevent@0__:del")
	woken(t, wake, "confirmed")
	s.Failover(t)
	woken(t, wake, "connected to the new master")
	redistest.Eventually(t, "events of the new master", func() bool {
		return subscriptions(t, s.Master, "__keyevent@0__:del") == 1
	})
	publish(t, s.Master, "a")
	woken(t, wake, "message on the new master")
	s.Master.Admin().Set(context.Background(), "key", "v", 0)
	s.Master.Admin().Del(context.Background(), "key")
	woken(t, events, "del on the new master")
}

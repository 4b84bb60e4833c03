package pubsub_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// A bed is a hub on servers of a kind, and its method under test.
type bed struct {
	*testing.T
	hub       *pubsub.Hub
	subscribe subscribe

	dial     func(t *testing.T) redis.UniversalClient
	method   func(h *pubsub.Hub) subscribe
	masters  []*redistest.Server
	channels []string // on one server, if a channel has only one
	// publish has a function for each server whose messages stay there.
	publish []func(channel string)
	// connected is how many connections there are for these channels, crowded for many.
	connected, crowded int
	shard              string // "SHARD" for shard channels, whose subcommands of PUBSUB begin with it
}

// kinds are all kinds of servers, with both protocols where that may matter. Without a cluster, Sharded is
// Subscribe.
var kinds = map[string]func(t *testing.T) *bed{
	"a server, RESP2": func(t *testing.T) *bed { return onServers(t, 1, 2, shardedOf) },
	"a server, RESP3": func(t *testing.T) *bed { return onServers(t, 1, 3, subscribeOf) },
	"a ring":          func(t *testing.T) *bed { return onServers(t, 2, 3, subscribeOf) },
	"a cluster":       func(t *testing.T) *bed { return onCluster(t, 3, "") },
	"shards, RESP2":   func(t *testing.T) *bed { return onCluster(t, 2, "SHARD") },
	"shards, RESP3":   func(t *testing.T) *bed { return onCluster(t, 3, "SHARD") },
}

func subscribeOf(h *pubsub.Hub) subscribe { return h.Subscribe }
func shardedOf(h *pubsub.Hub) subscribe   { return h.Sharded }

// onServers returns the bed of a single server, or of a ring.
func onServers(t *testing.T, n, protocol int, method func(*pubsub.Hub) subscribe) *bed {
	t.Helper()
	b := &bed{connected: n, crowded: n, channels: []string{"a", "b"}, method: method}
	addrs := map[string]string{}
	for i := range n {
		s := redistest.Start(t, "--notify-keyspace-events", "KEA")
		addrs[fmt.Sprint(i)] = s.Addr
		b.masters = append(b.masters, s)
		b.publish = append(b.publish, func(channel string) { publish(t, s, channel) })
	}
	b.dial = func(t *testing.T) redis.UniversalClient {
		if n == 1 {
			return b.masters[0].Client(t, func(o *redis.Options) { o.Protocol = protocol })
		}
		rdb := redis.NewRing(&redis.RingOptions{Addrs: addrs})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	return b
}

// onCluster returns the bed of a cluster, whose channels may be shard channels.
func onCluster(t *testing.T, protocol int, shard string) *bed {
	t.Helper()
	c := redistest.StartCluster(t, redistest.WithArgs("--notify-keyspace-events", "KEA"))
	b := &bed{
		masters: c.Servers, channels: channelsOf(c, 2)[1], connected: 1, crowded: 1,
		method: subscribeOf, shard: shard,
	}
	b.dial = func(t *testing.T) redis.UniversalClient {
		return c.Client(t, func(o *redis.ClusterOptions) { o.Protocol = protocol })
	}
	rdb := b.dial(t)
	say := rdb.Publish
	if shard != "" {
		b.method, b.crowded, say = shardedOf, len(c.Servers), rdb.SPublish
	}
	b.publish = []func(string){func(channel string) {
		redistest.NoError(t, say(context.Background(), channel, "x").Err())
	}}
	return b
}

// The specs of a kind share its servers. Each has a hub of its own, and leaves no connection.
func TestOnEachKindOfServers(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := kind(t)
			for name, spec := range map[string]func(b *bed){
				"subscriptions are shared and counted":        sharesSubscriptions,
				"a reconnect is announced":                    announcesReconnects,
				"events come from each server":                hearsEvents,
				"many channels at once take a few commands":   subscribesMany,
				"callers that come and go fast leave nothing": leavesNothing, // nor does Close
			} {
				t.Run(name, func(t *testing.T) {
					b := *on
					b.T, b.hub = t, newHub(t, on.dial(t))
					b.subscribe = on.method(b.hub)
					spec(&b)
					b.hub.Close()
					b.has(0)
				})
			}
		})
	}
}

// has waits until there are want connections to the masters.
func (b *bed) has(want int) {
	b.Helper()
	redistest.Eventually(b, fmt.Sprint(want, " connections"), func() bool {
		n := 0
		for _, s := range b.masters {
			n += connections(b.T, s)
		}
		return n == want
	})
}

// subscriptions returns how many connections have subscribed channel.
func (b *bed) subscriptions(channel string) (n int64) {
	b.Helper()
	for _, s := range b.masters {
		n += b.ask(s, "NUMSUB", channel)[1].(int64)
	}
	return n
}

// ask returns the reply of s to a subcommand of PUBSUB.
func (b *bed) ask(s *redistest.Server, subcommand, arg string) []any {
	b.Helper()
	return redistest.Must(s.Admin().Do(b.Context(), "PUBSUB", b.shard+subcommand, arg).Slice())(b)
}

// sent returns how often a master got SUBSCRIBE. Each shard channel has a command of its own.
func (b *bed) sent() int64 {
	b.Helper()
	return redistest.Calls(b, b.masters[0].Admin(), "subscribe")
}

// connections returns how many connections of s have subscribed something.
func connections(t *testing.T, s *redistest.Server) int {
	t.Helper()
	list := redistest.Must(s.Admin().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text())(t)
	return strings.Count(list, "\n")
}

func publish(t *testing.T, s *redistest.Server, channel string) {
	t.Helper()
	redistest.NoError(t, s.Admin().Publish(t.Context(), channel, "x").Err())
}

func sharesSubscriptions(b *bed) {
	one, two, before := b.channels[0], b.channels[1], b.sent()
	payloads := []string{"x", "y"}
	some, cancelSome := b.subscribe(one, payloads...)
	payloads[0] = "other"
	none, cancelNone := b.subscribe(one, payloads...)
	other, cancelOther := b.subscribe(two)
	all, cancels := []<-chan struct{}{some}, []func(){cancelSome, cancelNone}
	for range 10 {
		wake, cancel := b.subscribe(one)
		all, cancels = append(all, wake), append(cancels, cancel)
	}
	redistest.NoError(b, b.hub.Confirmed(b.Context(), one))
	redistest.NoError(b, b.hub.Confirmed(b.Context(), two))
	woken(b.T, "confirmed", append(all, none, other)...)
	for _, publish := range b.publish {
		publish(one)
		woken(b.T, "message", all...)
		publish(two)
		woken(b.T, "message", other)
		silent(b.T, "another payload, or another channel", append(all, none)...)
	}
	b.has(b.connected)
	if n := b.sent() - before; n > 2 {
		b.Errorf("%d SUBSCRIBE for 2 channels", n)
	}
	for i, cancel := range cancels {
		if n := b.subscriptions(one); n != int64(b.connected) {
			b.Fatalf("%d subscriptions after %d cancels", n, i)
		}
		cancel()
		cancel() // must not count for the next one
	}
	redistest.Eventually(b, "unsubscribed", func() bool { return b.subscriptions(one) == 0 })
	for _, publish := range b.publish {
		publish(two)
		woken(b.T, "the other channel stays", other)
	}
	again, cancelAgain := confirmed(b.T, b.subscribe, one)
	cancelSome() // nor for a later one
	b.publish[0](one)
	woken(b.T, "message", again)
	cancelAgain()
	cancelOther()
	b.has(0)
}

func announcesReconnects(b *bed) {
	wake, _ := confirmed(b.T, b.subscribe, b.channels[0])
	redistest.NoError(b, b.hub.Confirmed(b.Context(), b.channels[0]))
	for _, s := range b.masters {
		s.Admin().ClientKillByFilter(b.Context(), "TYPE", "pubsub")
	}
	woken(b.T, "reconnect", wake)
	for _, publish := range b.publish {
		redistest.Eventually(b, "a message after the reconnect", func() bool {
			publish(b.channels[0])
			return len(wake) == 1
		})
		<-wake
	}
}

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

func hearsEvents(b *bed) {
	const expirations = "__keyevent@0__:expired"
	for i, key := range keysOn(b.T, b.masters) {
		expired := subscribed(b.T, b.hub.Events, expirations, key)
		gone := subscribed(b.T, b.hub.Events, "__keyspace@0__:"+key, "del", "expired")
		redistest.NoError(b, b.hub.Confirmed(b.Context(), expirations))
		redistest.NoError(b, b.hub.Confirmed(b.Context(), "__keyspace@0__:"+key))
		admin := b.masters[i].Admin()
		admin.PExpire(b.Context(), key, time.Hour)
		silent(b.T, "confirmed, and pexpire", expired, gone)
		admin.Set(b.Context(), key, "v", time.Millisecond) // a PEXPIRE that takes as long would delete it
		woken(b.T, "expired", expired, gone)
		admin.Set(b.Context(), key, "v", 0)
		admin.Del(b.Context(), key)
		woken(b.T, "del", gone)
		silent(b.T, "del", expired)
	}
}

// crowd subscribes n channels, and returns what ends the subscriptions when all are confirmed.
func crowd(t *testing.T, n int, to subscribe) (cancels []func()) {
	t.Helper()
	signals := make([]<-chan struct{}, n)
	for i := range n {
		wake, cancel := to(fmt.Sprint("channel ", i))
		signals[i], cancels = wake, append(cancels, cancel)
	}
	woken(t, "confirmed", signals...)
	return cancels
}

func subscribesMany(b *bed) {
	const n = 1000
	before := b.sent()
	cancels := crowd(b.T, n, b.subscribe)
	b.has(b.crowded)
	if sent := b.sent() - before; sent > n/20 {
		b.Errorf("%d SUBSCRIBE for %d channels", sent, n)
	}
	for _, cancel := range cancels[1:] {
		cancel()
	}
	redistest.Eventually(b, "one channel left", func() bool {
		left := 0
		for _, s := range b.masters {
			left += len(b.ask(s, "CHANNELS", "*"))
		}
		return left == b.connected
	})
	cancels[0]()
	b.has(0)
}

func leavesNothing(b *bed) {
	var all sync.WaitGroup
	come := func(waits bool) {
		for i := range 16 {
			all.Go(func() {
				for j := range 500 {
					channel := fmt.Sprint("channel ", (i+j)%5)
					wake, cancel := b.subscribe(channel)
					_, cancelEvents := b.hub.Events(channel)
					if waits && j%50 == 0 && !wakes(wake) {
						b.Errorf("%s: no signal", channel)
					}
					cancel()
					cancelEvents()
				}
			})
		}
	}
	come(true)
	all.Wait()
	b.has(0)
	wake, _ := confirmed(b.T, b.subscribe, b.channels[0])
	redistest.NoError(b, b.hub.Confirmed(b.Context(), b.channels[0]))
	b.publish[0](b.channels[0])
	woken(b.T, "message", wake)
	come(false)
	b.hub.Close() // meanwhile
	all.Wait()
}

// After a failover, messages and events come from the new master.
func TestFailovers(t *testing.T) {
	t.Parallel()
	const deletions = "__keyevent@0__:del"
	after := func(t *testing.T, promoted *redistest.Server, wake, events <-chan struct{}) {
		t.Helper()
		key := keysOn(t, []*redistest.Server{promoted})[0]
		redistest.Eventually(t, "del on the new master", func() bool {
			promoted.Admin().Set(t.Context(), key, "v", 0)
			promoted.Admin().Del(t.Context(), key)
			return len(events) == 1
		})
		redistest.Eventually(t, "message by way of the new master", func() bool {
			publish(t, promoted, "a")
			return len(wake) == 1
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, redistest.WithReplicas(1),
			redistest.WithArgs("--notify-keyspace-events", "KEA"))
		h := newHub(t, c.Client(t))
		wake, events := heard(t, h, "a"), subscribed(t, h.Events, deletions)
		redistest.NoError(t, h.Confirmed(t.Context(), deletions))
		c.Servers[0].Stop()
		promoted := c.Servers[3]
		redistest.NoError(t, promoted.Admin().Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err())
		after(t, promoted, wake, events)
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t, "--notify-keyspace-events", "KEA")
		h := newHub(t, s.Client(t))
		wake, events := heard(t, h, "a"), subscribed(t, h.Events, deletions)
		redistest.NoError(t, h.Confirmed(t.Context(), deletions))
		s.Failover(t)
		woken(t, "connected to the new master", wake)
		after(t, s.Master, wake, events)
	})
}

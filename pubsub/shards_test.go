package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// spublish publishes on a shard channel of s.
func spublish(t *testing.T, s *redistest.Server, channel, payload string) {
	t.Helper()
	redistest.NoError(t, s.Admin().SPublish(t.Context(), channel, payload).Err())
}

// sharded returns how many connections of s have subscribed a shard channel.
func sharded(t *testing.T, s *redistest.Server, channel string) int64 {
	t.Helper()
	n := redistest.Must(s.Admin().PubSubShardNumSub(t.Context(), channel).Result())(t)
	return n[channel]
}

// do carries out a command on s.
func do(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	if err := s.Admin().Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// refusals returns how often the servers of c have said that a slot is elsewhere.
func refusals(t *testing.T, c *redistest.Cluster) (n int) {
	t.Helper()
	for _, s := range c.Servers {
		info := redistest.Must(s.Admin().Info(t.Context(), "errorstats").Result())(t)
		counts := regexp.MustCompile(`(?:MOVED|CLUSTERDOWN):count=(\d+)`)
		for _, m := range counts.FindAllStringSubmatch(info, -1) {
			count, _ := strconv.Atoi(m[1])
			n += count
		}
	}
	return n
}

// channelsOf returns n channels for each master of c, in different slots.
func channelsOf(c *redistest.Cluster, n int) (channels [3][]string) {
	for i := 0; len(channels[0]) < n || len(channels[1]) < n || len(channels[2]) < n; i++ {
		channel := fmt.Sprintf("ns:{channel-%d}", i)
		slot := c.Servers[0].Admin().ClusterKeySlot(context.Background(), channel).Val()
		for m := range channels {
			// StartCluster gives each master a third of the slots.
			if int(slot) >= m*16384/3 && int(slot) < (m+1)*16384/3 && len(channels[m]) < n {
				channels[m] = append(channels[m], channel)
			}
		}
	}
	return channels
}

// A marked channel tells when a hub has heard all that its server has said before.
type marked struct {
	*testing.T
	server  *redistest.Server
	channel string
	wake    <-chan struct{}
}

func newMarked(t *testing.T, h *pubsub.Hub, s *redistest.Server, channel string) *marked {
	t.Helper()
	wake := subscribed(t, h.Sharded, channel)
	woken(t, wake, "the mark is confirmed")
	return &marked{t, s, channel, wake}
}

func (m *marked) passed() {
	m.Helper()
	spublish(m.T, m.server, m.channel, "mark")
	woken(m.T, m.wake, "mark")
}

func TestShardedIsSubscribedWhereTheSlotIs(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channels := channelsOf(c, 3)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			h := newHub(t, c.Client(t, func(o *redis.ClusterOptions) { o.Protocol = protocol }))
			for i, s := range c.Servers {
				one, two := channels[i][0], channels[i][1]
				wake, cancel := confirmed(t, h.Sharded, one)
				again, cancelAgain := h.Sharded(one)
				woken(t, again, "confirmed before")
				other, cancelOther := confirmed(t, h.Sharded, two)
				plain, cancelPlain := confirmed(t, h.Subscribe, one)
				payloads := []string{"0", "1"}
				some, cancelSome := h.Sharded(one, payloads...)
				woken(t, some, "confirmed before")
				payloads[0] = "other"
				mark := newMarked(t, h, s, channels[i][2])
				if n := sharded(t, s, one); n != 1 {
					t.Errorf("%d subscriptions", n)
				}

				spublish(t, s, one, "other")
				woken(t, wake, "message")
				woken(t, again, "message")
				mark.passed()
				silent(t, some, "another payload")
				silent(t, other, "another channel")
				silent(t, plain, "a message for shard channels")
				spublish(t, s, one, "0")
				woken(t, some, "its payload")
				woken(t, wake, "message")
				publish(t, s, one)
				woken(t, plain, "PUBLISH")
				mark.passed()
				silent(t, wake, "PUBLISH")

				cancel()
				cancelSome()
				mark.passed()
				if n := sharded(t, s, one); n != 1 {
					t.Errorf("%d subscriptions, and one subscriber is left", n)
				}
				cancelAgain()
				redistest.Eventually(t, "unsubscribed", func() bool { return sharded(t, s, one) == 0 })
				spublish(t, s, two, "x")
				woken(t, other, "the other channel stays")
				cancelOther()
				cancelPlain()
			}
			for _, s := range c.Servers {
				redistest.Eventually(t, "one connection to each master", func() bool {
					return connections(t, s) == 1
				})
			}
			if n := refusals(t, c); n != 0 {
				t.Errorf("%d commands for slots of other servers", n)
			}
			h.Close()
			for _, s := range c.Servers {
				redistest.Eventually(t, "no connection left", func() bool { return connections(t, s) == 0 })
			}
		})
	}
}

func TestShardedReconnectIsAnnounced(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := c.Servers[1]
	channel := channelsOf(c, 1)[1][0]
	wake, _ := confirmed(t, newHub(t, c.Client(t)).Sharded, channel)
	for i := range 3 {
		s.Admin().ClientKillByFilter(t.Context(), "TYPE", "pubsub")
		woken(t, wake, fmt.Sprint("reconnect ", i))
		spublish(t, s, channel, "x")
		woken(t, wake, "message after the reconnect")
	}
}

// A user who may not have one of the channels has the others of the same server.
func TestShardedThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channels := channelsOf(c, 3)
	for _, s := range c.Servers {
		do(t, s, "ACL", "SETUSER", "app", "on", ">secret", "allkeys", "allcommands", "resetchannels",
			"&"+channels[0][0], "&"+channels[0][2])
	}
	h := newHub(t, c.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "secret" }))
	mark := newMarked(t, h, c.Servers[0], channels[0][0])
	_, cancel := confirmed(t, h.Sharded, channels[0][2])
	cancel()
	redistest.Eventually(t, "unsubscribed", func() bool {
		return sharded(t, c.Servers[0], channels[0][2]) == 0
	})
	_, cancel = h.Sharded(channels[0][1])
	defer cancel()
	if err := h.Confirmed(t.Context(), channels[0][1]); !redis.IsPermissionError(err) {
		t.Errorf("%v, want NOPERM", err)
	}
	mark.passed()
	silent(t, mark.wake, "the connection has stayed")
}

// lostCluster is a client that cannot say where a key is while it is lost.
type lostCluster struct {
	*redis.ClusterClient
	lost  atomic.Bool
	looks atomic.Int64
}

func (c *lostCluster) MasterForKey(ctx context.Context, key string) (*redis.Client, error) {
	c.looks.Add(1)
	if c.lost.Load() {
		return nil, errors.New("unknown")
	}
	return c.ClusterClient.MasterForKey(ctx, key)
}

func TestShardedWaitsForAnUnknownServer(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channels := channelsOf(c, 2)
	rdb := &lostCluster{ClusterClient: c.Client(t)}
	h := newHub(t, rdb)
	mark := newMarked(t, h, c.Servers[0], channels[0][0])
	rdb.lost.Store(true)
	wake := subscribed(t, h.Sharded, channels[0][1])
	before := rdb.looks.Load()
	redistest.Eventually(t, "a look that fails", func() bool { return rdb.looks.Load() > before+2 })
	mark.passed()
	silent(t, wake, "its server is unknown")
	rdb.lost.Store(false)
	woken(t, wake, "confirmed")
	silent(t, mark.wake, "the connection has stayed")
}

// Callers come back before it is known where their channels are now.
func TestShardedResubscribesWhileItsServerIsUnknown(t *testing.T) {
	t.Parallel()
	const n = 50
	c := redistest.StartCluster(t)
	channels := channelsOf(c, n+1)[0]
	rdb := &lostCluster{ClusterClient: c.Client(t)}
	h := newHub(t, rdb)
	newMarked(t, h, c.Servers[0], channels[n]) // keeps the connection
	var cancels []func()
	for _, channel := range channels[:n] {
		_, cancel := confirmed(t, h.Sharded, channel)
		cancels = append(cancels, cancel)
	}
	rdb.lost.Store(true)
	for i, cancel := range cancels {
		cancel()
		_, cancels[i] = h.Sharded(channels[i])
	}
	redistest.Eventually(t, "the mark is left", func() bool {
		return len(c.Servers[0].Admin().PubSubShardChannels(t.Context(), "*").Val()) == 1
	})
	for _, cancel := range cancels {
		cancel()
	}
}

func TestShardedCallersThatComeAndGoFast(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channels := channelsOf(c, 3)
	rdb := &lostCluster{ClusterClient: c.Client(t)}
	h := newHub(t, rdb)
	for i, s := range c.Servers { // keeps the connections
		newMarked(t, h, s, channels[i][2])
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for j := range 500 {
				channel := channels[(i+j)%3][j%2]
				wake, cancel := h.Sharded(channel)
				if j%50 == 0 && !wakes(wake) {
					t.Errorf("%s: no signal", channel)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for _, s := range c.Servers {
		redistest.Eventually(t, "the mark is left", func() bool {
			return connections(t, s) == 1 && len(s.Admin().PubSubShardChannels(t.Context(), "*").Val()) == 1
		})
	}
	wake, _ := confirmed(t, h.Sharded, channels[0][0])
	spublish(t, c.Servers[0], channels[0][0], "x")
	woken(t, wake, "message")
	looks := rdb.looks.Load()
	wake, cancelOther := h.Sharded(channels[0][1]) // finding one is no reason to look for all
	defer cancelOther()
	woken(t, wake, "confirmed")
	if n := rdb.looks.Load() - looks; n != 1 {
		t.Errorf("%d looks for one channel", n)
	}
}

func TestShardedOfAMasterThatHasNoChannelLeft(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channels := channelsOf(c, 2)
	h := newHub(t, c.Client(t))
	mark, lost := newMarked(t, h, c.Servers[1], channels[1][0]), newMarked(t, h, c.Servers[2], channels[2][0])
	_, cancel := confirmed(t, h.Sharded, channels[0][0])
	cancel()
	c.Servers[2].Admin().ClientKillByFilter(t.Context(), "TYPE", "pubsub") // all servers are looked up
	woken(t, lost.wake, "reconnected")
	redistest.Eventually(t, "its connection is closed", func() bool {
		return connections(t, c.Servers[0]) == 0
	})
	silent(t, mark.wake, "the others are left alone")
}

func TestManyShardedAtOnce(t *testing.T) {
	t.Parallel()
	const n = 1000
	c := redistest.StartCluster(t)
	h := newHub(t, c.Client(t))
	_, cancels := crowd(t, n, h.Sharded)
	for _, s := range c.Servers {
		if got := connections(t, s); got != 1 {
			t.Errorf("%d connections to a master", got)
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	for _, s := range c.Servers {
		redistest.Eventually(t, "no connection left", func() bool { return connections(t, s) == 0 })
	}
}

// On a client that is none of a cluster Sharded is Subscribe.
func TestShardedOnASingleServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := newHub(t, s.Client(t))
	wake, _ := confirmed(t, h.Sharded, "a", "x")
	publish(t, s, "a")
	woken(t, wake, "message")
	if n := connections(t, s); n != 1 || subscriptions(t, s, "a") != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestConfirmedIsOfEachKind(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	channel := channelsOf(c, 1)[2][0]
	h := newHub(t, c.Client(t))
	wake := subscribed(t, h.Subscribe, channel)
	event := subscribed(t, h.Events, channel)
	shard := subscribed(t, h.Sharded, channel)
	redistest.NoError(t, h.Confirmed(t.Context(), channel))
	woken(t, wake, "confirmed")
	woken(t, shard, "confirmed")
	spublish(t, c.Servers[2], channel, "x")
	woken(t, shard, "SPUBLISH")
	publish(t, c.Servers[2], channel)
	woken(t, wake, "PUBLISH")
	woken(t, event, "PUBLISH")
	h.Close()
	if err := h.Confirmed(t.Context(), channel); err == nil {
		t.Error("no error of a closed hub")
	}
}

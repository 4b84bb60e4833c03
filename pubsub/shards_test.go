package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

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

// shards are a cluster, a hub on it, and channels of each master in different slots.
type shards struct {
	*testing.T
	*redistest.Cluster
	rdb      *lostCluster
	hub      *pubsub.Hub
	channels [3][]string
}

// newShards starts a cluster. The hub has a user of its own, app.
func newShards(t *testing.T, opts ...redistest.ClusterOption) *shards {
	t.Helper()
	t.Parallel()
	c := &shards{T: t, Cluster: redistest.StartCluster(t, opts...)}
	c.channels = channelsOf(c.Cluster, 3)
	for _, s := range c.Servers {
		c.do(s, "ACL", "SETUSER", "app", "on", ">secret", "allkeys", "allcommands", "allchannels")
	}
	c.rdb = &lostCluster{ClusterClient: c.Client(t, func(o *redis.ClusterOptions) {
		o.Username, o.Password = "app", "secret"
	})}
	c.hub = newHub(t, c.rdb)
	return c
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

// say publishes on a shard channel of s, and expects a signal of each subscriber.
func (c *shards) say(s *redistest.Server, channel string, signals ...<-chan struct{}) {
	c.Helper()
	redistest.NoError(c, s.Admin().SPublish(c.Context(), channel, "x").Err())
	woken(c.T, "message", signals...)
}

// has waits until s has want subscriptions of a shard channel.
func (c *shards) has(s *redistest.Server, channel string, want int64) {
	c.Helper()
	redistest.Eventually(c, fmt.Sprint(want, " subscriptions"), func() bool {
		return redistest.Must(s.Admin().PubSubShardNumSub(c.Context(), channel).Result())(c)[channel] == want
	})
}

func (c *shards) do(s *redistest.Server, args ...any) {
	c.Helper()
	redistest.NoError(c, s.Admin().Do(c.Context(), args...).Err())
}

// refusals returns how often the servers have said that a slot is elsewhere.
func (c *shards) refusals() (n int) {
	c.Helper()
	for _, s := range c.Servers {
		info := redistest.Must(s.Admin().Info(c.Context(), "errorstats").Result())(c)
		counts := regexp.MustCompile(`(?:MOVED|CLUSTERDOWN):count=(\d+)`)
		for _, m := range counts.FindAllStringSubmatch(info, -1) {
			count, _ := strconv.Atoi(m[1])
			n += count
		}
	}
	return n
}

// A mark tells when the hub has heard all that a server has said before.
type mark struct {
	*shards
	server  *redistest.Server
	channel string
	wake    <-chan struct{}
}

func (c *shards) mark(master, channel int) mark {
	c.Helper()
	m := mark{c, c.Servers[master], c.channels[master][channel], nil}
	m.wake, _ = confirmed(c.T, c.hub.Sharded, m.channel)
	return m
}

func (m mark) passed() {
	m.Helper()
	m.say(m.server, m.channel, m.wake)
}

func TestShardedIsSubscribedWhereTheSlotIs(t *testing.T) {
	c := newShards(t)
	for i, s := range c.Servers {
		channel := c.channels[i][0]
		wake := subscribed(t, c.hub.Sharded, channel)
		plain := subscribed(t, c.hub.Subscribe, channel)
		event := subscribed(t, c.hub.Events, channel)
		redistest.NoError(t, c.hub.Confirmed(t.Context(), channel))
		woken(t, "confirmed", wake, plain)
		mark := c.mark(i, 2)
		c.has(s, channel, 1)
		c.say(s, channel, wake)
		mark.passed()
		silent(t, "a message for shard channels", plain, event)
		publish(t, s, channel)
		woken(t, "PUBLISH", plain, event)
		mark.passed()
		silent(t, "PUBLISH", wake)
	}
	if n := c.refusals(); n != 0 {
		t.Errorf("%d commands for slots of other servers", n)
	}
	c.hub.Close()
	if err := c.hub.Confirmed(t.Context(), c.channels[0][0]); err == nil {
		t.Error("no error of a closed hub")
	}
}

// A user who may not have one of the channels has the others of the same server.
func TestShardedThatIsNotAllowed(t *testing.T) {
	c := newShards(t)
	for _, s := range c.Servers {
		c.do(s, "ACL", "SETUSER", "app", "resetchannels", "&"+c.channels[0][0], "&"+c.channels[0][2])
	}
	mark := c.mark(0, 0)
	_, cancel := confirmed(t, c.hub.Sharded, c.channels[0][2])
	cancel()
	c.has(c.Servers[0], c.channels[0][2], 0)
	subscribed(t, c.hub.Sharded, c.channels[0][1])
	if err := c.hub.Confirmed(t.Context(), c.channels[0][1]); !redis.IsPermissionError(err) {
		t.Errorf("%v, want NOPERM", err)
	}
	mark.passed()
	silent(t, "the connection has stayed", mark.wake)
}

// Callers subscribe, and subscribe again, before the new servers of their channels are known.
func TestShardedWaitsForAnUnknownServer(t *testing.T) {
	const n = 50
	c := newShards(t)
	s, channels := c.Servers[0], channelsOf(c.Cluster, n+3)[0][3:]
	mark := c.mark(0, 0)
	var cancels []func()
	for _, channel := range channels {
		_, cancel := confirmed(t, c.hub.Sharded, channel)
		cancels = append(cancels, cancel)
	}
	c.rdb.lost.Store(true)
	for i, cancel := range cancels {
		cancel()
		_, cancels[i] = c.hub.Sharded(channels[i])
	}
	wake := subscribed(t, c.hub.Sharded, c.channels[0][1])
	before := c.rdb.looks.Load()
	redistest.Eventually(t, "a look that fails, and the mark is left", func() bool {
		left := s.Admin().PubSubShardChannels(t.Context(), "*").Val()
		return c.rdb.looks.Load() > before+2 && len(left) == 1
	})
	mark.passed()
	silent(t, "its server is unknown", wake)
	for _, cancel := range cancels {
		cancel()
	}
	c.rdb.lost.Store(false)
	woken(t, "confirmed", wake)
	silent(t, "the connection has stayed", mark.wake)
	before = c.rdb.looks.Load()
	confirmed(t, c.hub.Sharded, c.channels[0][2])
	if n := c.rdb.looks.Load() - before; n != 1 { // finding one is no reason to look for all
		t.Errorf("%d looks for one channel", n)
	}
}

func TestShardedOfAMasterThatHasNoChannelLeft(t *testing.T) {
	c := newShards(t)
	stays, lost := c.mark(1, 0), c.mark(2, 0)
	_, cancel := confirmed(t, c.hub.Sharded, c.channels[0][0])
	cancel()
	c.Servers[2].Admin().ClientKillByFilter(t.Context(), "TYPE", "pubsub") // all servers are looked up
	woken(t, "reconnected", lost.wake)
	redistest.Eventually(t, "its connection is closed", func() bool {
		return connections(t, c.Servers[0]) == 0
	})
	silent(t, "the others are left alone", stays.wake)
}

// A hub receives the messages of a slot that moves, whether its channel was subscribed before the move
// or is subscribed after it, when the client still knows the old owner.
func TestShardedFollowsTheSlot(t *testing.T) {
	c := newShards(t)
	from, to := c.Servers[0], c.Servers[1]
	here, there := c.mark(0, 1), c.mark(1, 0)
	moves, late := c.channels[0][0], c.channels[0][2]
	wake, cancel := confirmed(t, c.hub.Sharded, moves)
	for i := range 3 {
		c.Move(t, moves, to).End()
		woken(t, fmt.Sprint("confirmed by the new owner ", i), wake)
		c.has(from, moves, 0)
		c.has(to, moves, 1)
		c.say(to, moves, wake)
		redistest.NoError(t, c.hub.Confirmed(t.Context(), moves))
		from, to = to, from
	}
	silent(t, "a channel that stays is left alone", here.wake, there.wake)

	c.Move(t, late, c.Servers[2]).End()
	wakeLate, cancelLate := confirmed(t, c.hub.Sharded, late) // by the owner after MOVED
	c.say(c.Servers[2], late, wakeLate)
	silent(t, "a channel that stays is left alone", here.wake)
	cancel()
	cancelLate()
	for _, s := range c.Servers {
		c.has(s, moves, 0)
		c.has(s, late, 0)
	}
}

// While no node has a slot, the channels of other slots still work, and its own are tried with pauses.
func TestShardedComesBackWithItsSlot(t *testing.T) {
	c := newShards(t, redistest.WithArgs("--cluster-require-full-coverage", "no"))
	s, lost, mark := c.Servers[0], c.channels[0][0], c.mark(0, 1)
	wake, _ := confirmed(t, c.hub.Sharded, lost)
	slot := s.Admin().ClusterKeySlot(t.Context(), lost).Val()
	start := time.Now()
	c.do(s, "CLUSTER", "DELSLOTS", slot)
	c.has(s, lost, 0)
	mark.passed()
	confirmed(t, c.hub.Sharded, c.channels[0][2])
	silent(t, "not confirmed again", wake)
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := c.hub.Confirmed(ctx, lost); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want an error: no server has the slot", err)
	}
	redistest.Eventually(t, "tries that were refused", func() bool { return c.refusals() > 3 })
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("4 tries in %v", took)
	}
	late := subscribed(t, c.hub.Sharded, lost)
	silent(t, "a confirmation of before does not count", late)
	c.do(s, "CLUSTER", "ADDSLOTS", slot)
	woken(t, "confirmed again", wake, late)
	c.say(s, lost, wake)
	fastest := time.Hour
	for range 3 {
		start := time.Now()
		c.do(s, "CLUSTER", "DELSLOTS", slot)
		c.do(s, "CLUSTER", "ADDSLOTS", slot)
		woken(t, "confirmed again", wake)
		fastest = min(fastest, time.Since(start))
	}
	if fastest > time.Second {
		t.Errorf("the fastest of the last times took %v: failures from before still count", fastest)
	}
	silent(t, "the other channel is left alone", mark.wake)
}

func TestShardedFollowsAFailover(t *testing.T) {
	c := newShards(t, redistest.WithReplicas(1))
	for i, stops := range []bool{true, false} {
		old, promoted := c.Servers[i], c.Servers[3+i]
		one, two := c.channels[i][0], c.channels[i][1]
		wake, _ := confirmed(t, c.hub.Sharded, one)
		other, _ := confirmed(t, c.hub.Sharded, two)
		if stops {
			old.Stop()
		}
		c.do(promoted, "CLUSTER", "FAILOVER", "TAKEOVER")
		woken(t, "confirmed after the failover", wake, other)
		c.has(promoted, one, 1)
		c.has(promoted, two, 1)
		c.say(promoted, one, wake)
		if !stops {
			redistest.Eventually(t, "the old master has no connection", func() bool {
				return connections(t, old) == 0
			})
		}
	}
}

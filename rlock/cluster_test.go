package rlock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// hostPort returns where a server listens, in two words.
func hostPort(s *redistest.Server) (host, port string) {
	host, port, _ = net.SplitHostPort(s.Addr)
	return host, port
}

// A clusterEnv is an env on a cluster of three masters.
type clusterEnv struct {
	*env
	cluster *redistest.Cluster
}

func onCluster(t *testing.T, mods ...func(*redis.ClusterOptions)) *clusterEnv {
	t.Helper()
	t.Parallel()
	c := redistest.StartCluster(t)
	rdb := c.Client(t, mods...)
	return &clusterEnv{newEnv(t, rdb, rdb), c}
}

// names returns a name for each master, whose keys are there.
func (w *clusterEnv) names() []string {
	w.Helper()
	names := make([]string, len(w.cluster.Servers))
	for slices.Contains(names, "") {
		name := redistest.Name(w)
		names[w.cluster.Node(w, name)] = name
	}
	return names
}

// moves begins to move the slot of a key to the next node.
func (w *clusterEnv) moves(key string) *redistest.Move {
	w.Helper()
	return w.cluster.Move(w, key, w.cluster.Servers[(w.cluster.Node(w, key)+1)%3])
}

// A lock on a cluster has a whole life on each node (Redisson's testInCluster), and notifies waiters of
// another process.
func TestCluster(t *testing.T) {
	w := onCluster(t)
	ctx := within(t)
	locks, other := w.locks, w.client()
	nodes := map[int]bool{}
	for i := 0; i < 9 || len(nodes) < 3; i++ {
		name := redistest.Name(t)
		nodes[w.cluster.Node(t, name)] = true
		h := must(locks.FencedLock(name).Lock(ctx))(t)
		noError(t, h.Relock(ctx))
		want(t, "locked", must(other.Lock(name).IsLocked(ctx))(t), true)
		want(t, "count", must(h.HoldCount(ctx))(t), 2)
		next := async(func() error { return pass(ctx, other.FencedLock(name)) })
		noError(t, h.Unlock(ctx))
		noError(t, h.Unlock(ctx))
		noError(t, comes(t, next))
		want(t, "locked", must(locks.Lock(name).IsLocked(ctx))(t), false)
	}
}

// Locks are renewed while their slot moves to another node, with a part of their keys on either node.
func TestRenewalInAMovingSlot(t *testing.T) {
	w := onCluster(t)
	ctx := within(t)
	const lease = 6 * time.Second
	locks, tag := w.client(rlock.WithWatchdogTimeout(lease)), redistest.Name(t)
	holds := make([]*rlock.Hold, 25)
	for i := range holds {
		holds[i] = must(locks.Lock(fmt.Sprintf("{%s}%d", tag, i)).Lock(ctx))(t)
	}
	ends := func(i int) time.Time {
		left := must(locks.Lock(fmt.Sprintf("{%s}%d", tag, i)).RemainTimeToLive(ctx))(t)
		return time.Now().Add(left)
	}
	renewed := func() {
		before := make([]time.Time, len(holds))
		for i := range holds {
			before[i] = ends(i)
		}
		for i := range holds {
			redistest.Until(t, "a renewal", func() error {
				if now := ends(i); now.Before(before[i].Add(lease / 10)) {
					return fmt.Errorf("lock %d is held until %v, as before", i, now)
				}
				return nil
			})
		}
	}
	m := w.moves("{" + tag + "}0")
	m.Keys(len(holds) / 2)
	renewed()
	m.Keys(len(holds))
	m.End()
	renewed()
	for _, h := range holds {
		noError(t, h.Err())
		want(t, "held", must(h.IsHeld(ctx))(t), true)
		noError(t, h.Unlock(ctx))
	}
}

// The slot of a lock goes round the cluster while callers of two processes contend for it. At most one
// caller holds it, no caller gets an error, and nothing stays behind.
func TestLockSurvivesMovesOfItsSlot(t *testing.T) {
	w := onCluster(t)
	ctx, name := within(t), redistest.Name(t)
	holders := make(chan struct{}, 1)
	working, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	held := make(chan struct{}, 1_000_000)
	for range 2 {
		locks := w.client()
		for range 4 {
			all.Go(func() {
				for working.Err() == nil {
					w.passes(ctx, locks.FencedLock("{"+name+"}"), func() {
						w.alone(holders)
						held <- struct{}{}
					})
				}
			})
		}
	}
	for range 6 {
		for range 20 {
			comes(t, held)
		}
		m := w.moves("{" + name + "}")
		time.Sleep(10 * time.Millisecond) // for calls in between
		m.Keys(1)
		time.Sleep(200 * time.Millisecond) // longer than the pauses of go-redis: TRYAGAIN
		m.Keys(1000)
		m.End()
		for len(held) > 0 {
			<-held
		}
	}
	for range 20 { // the callers continue after the last move
		comes(t, held)
	}
	stop()
	all.Wait()
	w.free("{" + name + "}")
}

// A silent node does not delay giving back a lock on another node that was granted without a holder.
func TestSilentNodeDoesNotDelayOthers(t *testing.T) {
	w := onCluster(t, func(o *redis.ClusterOptions) {
		o.ReadTimeout, o.MaxRedirects, o.DialTimeout = 300*time.Millisecond, -1, 300*time.Millisecond
	})
	names := w.names()[:2]
	for _, name := range names {
		noError(t, pass(within(t), w.locks.Lock(name)))
	}
	thaw := map[int]func(){}
	for node, name := range names {
		thaw[node] = w.cluster.Servers[node].Freeze(t)
		h, ok, err := w.locks.Lock(name).TryLock(context.Background(), 100*time.Millisecond, 0)
		unanswered(t, h, ok, err)
		time.Sleep(500 * time.Millisecond) // until go-redis has given up: the first one comes first
	}
	thaw[1]()
	s := &env{T: t, look: w.cluster.Servers[1].Admin()}
	redistest.Eventually(t, "the idempotency key of what was given back", func() bool {
		return s.idempotencyKeys("*") > 0
	})
	s.free(names[1])
	thaw[0]()
}

// The next owner of a fair lock on a cluster is notified on its own shard channel, as by Redisson: of an
// unlock, also by force, and when the owner before it leaves.
func TestFairNotifiesOnShardChannels(t *testing.T) {
	w := onCluster(t)
	ctx := within(t)
	locks, other := w.locks, w.client()
	for i, name := range w.names() {
		look := w.cluster.Servers[i].Admin()
		s := fairEnvOf(&env{T: t, rdb: w.rdb, look: look}, name)
		here, there := locks.FairLock(name), other.FairLock(name)

		h := must(here.LockFor(ctx, time.Hour))(t)
		turn := s.waits(there, 1)
		notified := s.hears(w)
		noError(t, h.Unlock(ctx))
		notified()
		turn.held()

		turn = s.waits(here, 1)
		notified = s.hears(w)
		want(t, "forced", must(there.ForceUnlock(ctx))(t), true)
		notified()
		turn.held()

		leaves := s.waits(there, 1)
		turn = s.waits(here, 2)
		notified = s.hears(w)
		noError(t, look.Del(ctx, name).Err()) // without a message
		leaves.stop()
		if h := <-leaves.hold; h != nil { // it was notified as the first
			noError(t, h.Unlock(ctx))
		}
		notified()
		noError(t, turn.held().Unlock(ctx))
		s.free()
	}
}

// hears expects the last waiter to listen to its shard channel, and to no other. The function that it
// returns expects a message there.
func (s *fairEnv) hears(w *clusterEnv) (notified func()) {
	s.Helper()
	ctx, queue := within(s), s.waiting()
	channel := s.channel + ":" + queue[len(queue)-1]
	for _, server := range w.cluster.Servers {
		node := fairEnv{env: &env{T: s.T, look: server.Admin()}}
		plain, shard := node.listeners(channel)
		want(s, "listeners", plain, 0)
		if server.Admin() == s.look {
			want(s, "listeners of the shard", shard, 1)
		}
	}
	sub := s.look.SSubscribe(ctx, channel)
	must(sub.Receive(ctx))(s)
	return func() {
		s.Helper()
		defer sub.Close()
		want(s, "message", must(sub.ReceiveMessage(ctx))(s).Payload, "0")
	}
}

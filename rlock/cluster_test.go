package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// hostPort returns where a server listens, in two words.
func hostPort(s *redistest.Server) (host, port string) {
	host, port, _ = net.SplitHostPort(s.Addr)
	return host, port
}

// A town is locks on a cluster of three masters.
type town struct {
	*testing.T
	cluster *redistest.Cluster
	rdb     *redis.ClusterClient
}

func newTown(t *testing.T, mods ...func(*redis.ClusterOptions)) *town {
	t.Helper()
	c := redistest.StartCluster(t)
	return &town{t, c, c.Client(t, mods...)}
}

func (w *town) client(opts ...rlock.Option) *rlock.Client {
	limiters := rratelimiter.New(w.rdb)
	w.Cleanup(func() { _ = limiters.Close() })
	return rlock.New(limiters, opts...)
}

// node returns the place of the master that has a key.
func (w *town) node(key string) int {
	w.Helper()
	for i, s := range w.cluster.Servers {
		if s.Admin().Exists(w.Context(), key).Err() == nil {
			return i
		}
	}
	w.Fatal("no node has " + key)
	return 0
}

// names returns a name for each master, whose keys are there.
func (w *town) names() []string {
	w.Helper()
	names := make([]string, len(w.cluster.Servers))
	for slices.Contains(names, "") {
		name := redistest.Name(w)
		names[w.node(name)] = name
	}
	return names
}

// free waits until nobody has a lock.
func (w *town) free(name string) {
	w.Helper()
	(&stage{T: w.T, look: w.rdb}).free(name)
}

// A move takes the slot of a key to the next node.
type move struct {
	*town
	slot         int64
	src, dst     *redistest.Server
	srcID, dstID string
}

// moves begins to move the slot of a key.
func (w *town) moves(key string) *move {
	w.Helper()
	w.cluster.Agree(w)
	i := w.node(key)
	m := &move{town: w, src: w.cluster.Servers[i], dst: w.cluster.Servers[(i+1)%3]}
	m.slot = must(m.src.Admin().ClusterKeySlot(w.Context(), key).Result())(w)
	m.srcID = must(m.src.Admin().ClusterMyID(w.Context()).Result())(w)
	m.dstID = must(m.dst.Admin().ClusterMyID(w.Context()).Result())(w)
	m.do(m.dst, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.srcID)
	m.do(m.src, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.dstID)
	return m
}

func (m *move) do(s *redistest.Server, args ...any) {
	m.Helper()
	if err := s.Admin().Do(m.Context(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		m.Fatalf("%v: %v", args, err)
	}
}

// keys moves so many keys at most.
func (m *move) keys(n int) {
	m.Helper()
	host, port := hostPort(m.dst)
	for _, key := range must(m.src.Admin().ClusterGetKeysInSlot(m.Context(), int(m.slot), n).Result())(m) {
		m.do(m.src, "MIGRATE", host, port, key, 0, 5000)
	}
}

// ends moves what is left.
func (m *move) ends() {
	m.Helper()
	m.keys(1000)
	for _, s := range append([]*redistest.Server{m.dst, m.src}, m.cluster.Servers...) {
		m.do(s, "CLUSTER", "SETSLOT", m.slot, "NODE", m.dstID)
	}
}

// A lock on a cluster has a whole life on each node (Redisson's testInCluster), and waiters of
// another process are told.
func TestCluster(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	ctx := within(t)
	locks, other := w.client(), w.client()
	nodes := map[int]bool{}
	for i := 0; i < 9 || len(nodes) < 3; i++ {
		name := redistest.Name(t)
		nodes[w.node(name)] = true
		h := must(locks.FencedLock(name).Lock(ctx))(t)
		noError(t, h.Relock(ctx))
		want(t, "locked", must(other.Lock(name).IsLocked(ctx))(t), true)
		want(t, "count", must(h.HoldCount(ctx))(t), 2)
		next := make(chan error, 1)
		go func() {
			h, err := other.FencedLock(name).Lock(ctx)
			if err == nil {
				err = h.Unlock(ctx)
			}
			next <- err
		}()
		noError(t, h.Unlock(ctx))
		noError(t, h.Unlock(ctx))
		noError(t, comes(t, next))
		want(t, "locked", must(locks.Lock(name).IsLocked(ctx))(t), false)
	}
}

// Locks whose slot is on its way, some of their keys already there, are renewed all the same.
func TestRenewalInASlotThatMoves(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	ctx := within(t)
	const lease = 1500 * time.Millisecond
	locks, tag := w.client(rlock.WithWatchdogTimeout(lease)), redistest.Name(t)
	holds := make([]*rlock.Hold, 25)
	for i := range holds {
		holds[i] = must(locks.Lock(fmt.Sprintf("{%s}%d", tag, i)).Lock(ctx))(t)
	}
	m := w.moves("{" + tag + "}0")
	m.keys(len(holds) / 2)
	time.Sleep(2 * lease)
	m.ends()
	time.Sleep(lease)
	for _, h := range holds {
		noError(t, h.Err())
		want(t, "held", must(h.IsHeld(ctx))(t), true)
		noError(t, h.Unlock(ctx))
	}
}

// The slot of a lock goes round the cluster while callers of two processes contend for it. They
// hold it one at a time, nobody who waits is told of it, and nothing stays behind.
func TestALockWhoseSlotMoves(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	ctx, name := within(t), redistest.Name(t)
	holders := make(chan struct{}, 1)
	stop := make(chan struct{})
	var all sync.WaitGroup
	held := make(chan struct{}, 1_000_000)
	for range 2 {
		locks := w.client()
		for range 4 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					h, err := locks.FencedLock("{" + name + "}").Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case holders <- struct{}{}:
					default:
						t.Error("two holders")
					}
					held <- struct{}{}
					<-holders
					if err := h.Unlock(ctx); err != nil {
						t.Error(err)
					}
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
		m.keys(1)
		time.Sleep(200 * time.Millisecond) // longer than the pauses of go-redis: TRYAGAIN
		m.ends()
		for len(held) > 0 {
			<-held
		}
	}
	for range 20 { // it goes on after the last move
		comes(t, held)
	}
	close(stop)
	all.Wait()
	w.free("{" + name + "}")
}

// A node that says nothing does not keep what was granted to nobody on another node from being
// given back.
func TestANodeThatIsSilent(t *testing.T) {
	t.Parallel()
	w := newTown(t, func(o *redis.ClusterOptions) {
		o.ReadTimeout, o.MaxRedirects, o.DialTimeout = 300*time.Millisecond, -1, 300*time.Millisecond
	})
	locks := w.client()
	names := map[int]string{}
	for len(names) < 2 {
		if name := redistest.Name(t); w.node(name) < 2 {
			names[w.node(name)] = name
		}
	}
	for _, name := range names {
		h := must(locks.Lock(name).Lock(within(t)))(t)
		noError(t, h.Unlock(within(t)))
	}
	thaw := map[int]func(){}
	for _, node := range []int{0, 1} {
		thaw[node] = w.cluster.Servers[node].Freeze(t)
		h, ok, err := locks.Lock(names[node]).TryLock(context.Background(), 100*time.Millisecond, 0)
		unanswered(t, h, ok, err)
		time.Sleep(500 * time.Millisecond) // until go-redis has given up: the first one comes first
	}
	thaw[1]()
	look := w.cluster.Servers[1].Admin()
	redistest.Until(t, "the latch of what was given back", func() error {
		latches := must(look.Keys(t.Context(), "redisson_unlock_latch:*").Result())(t)
		if len(latches) == 0 {
			return errors.New("none")
		}
		return nil
	})
	(&stage{T: t, look: look}).free(names[1])
	thaw[0]()
}

// Who is next for a fair lock of a cluster is told on a shard channel of its own, as by Redisson:
// when the lock is unlocked, also by force, and when the one before it leaves.
func TestFairTellsShards(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	ctx := within(t)
	locks, other := w.client(), w.client()
	for i, name := range w.names() {
		look := w.cluster.Servers[i].Admin()
		s := fairStageOf(&stage{T: t, rdb: w.rdb, look: look}, name)
		here, there := locks.FairLock(name), other.FairLock(name)

		h := must(here.LockFor(ctx, time.Hour))(t)
		turn := s.waits(there, 1)
		told := s.hears(w)
		noError(t, h.Unlock(ctx))
		told()
		turn.held()

		turn = s.waits(here, 1)
		told = s.hears(w)
		want(t, "forced", must(there.ForceUnlock(ctx))(t), true)
		told()
		turn.held()

		leaves := s.waits(there, 1)
		turn = s.waits(here, 2)
		told = s.hears(w)
		noError(t, look.Del(ctx, name).Err()) // nobody is told
		leaves.stop()
		if h := <-leaves.hold; h != nil { // it was told that it is the first
			noError(t, h.Unlock(ctx))
		}
		told()
		noError(t, turn.held().Unlock(ctx))
		s.free()
	}
}

// hears expects the last waiter to listen to its shard channel, and to no other. The function
// that it returns expects a message there.
func (s *fairStage) hears(w *town) (told func()) {
	s.Helper()
	ctx, queue := within(s), s.waiting()
	channel := s.channel + ":" + queue[len(queue)-1]
	for _, server := range w.cluster.Servers {
		node := fairStage{stage: &stage{T: s.T, look: server.Admin()}}
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

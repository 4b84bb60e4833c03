package rlock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func onCluster(t *testing.T, mods ...func(*redis.ClusterOptions)) *env {
	t.Helper()
	t.Parallel()
	return onNodes(t, redistest.StartCluster(t), mods...)
}

func onNodes(t *testing.T, c *redistest.Cluster, mods ...func(*redis.ClusterOptions)) *env {
	t.Helper()
	dial := func(...func(*redis.Options)) redis.UniversalClient { return c.Client(t, mods...) }
	s := newEnv(t, c.Client(t), dial)
	s.cluster = c
	return s
}

// names returns a name for each master, whose keys are there.
func (s *env) names() []string {
	s.Helper()
	names := make([]string, len(s.cluster.Servers))
	for slices.Contains(names, "") {
		name := redistest.Name(s)
		names[s.cluster.Node(s, name)] = name
	}
	return names
}

// moves begins to move the slot of a key to the next node.
func (s *env) moves(key string) *redistest.Move {
	s.Helper()
	return s.cluster.Move(s, key, s.cluster.Servers[(s.cluster.Node(s, key)+1)%3])
}

// A lock on a cluster has a whole life on each node, and notifies waiters of another process, those of a
// fair lock on shard channels of their own, as Redisson does: of an unlock, also by force, and when the
// owner before it leaves.
func TestCluster(t *testing.T) {
	w := onCluster(t)
	for i, name := range w.names() {
		look := w.cluster.Servers[i].Admin()
		for kind, steps := range map[string]string{
			"fenced": "a1 locks; a1 relocks; b sees locked; a1 holds 2; b1 waits; a1 unlocks; a1 unlocks; " +
				"b1 has; b1 follows a1; b1 unlocks; a sees none; free",
			"fair": "a1 locks 1h; b1 waits; listens b1; a1 unlocks; message b1 0; b1 has; " +
				"a2 waits; listens a2; a1 forces yes; message a2 0; a2 has; b2 waits; a3 waits; " +
				"listens a3; redis DEL LOCK; b2 leaves; message a3 0; a3 has; a3 unlocks; free",
		} {
			s := *w
			s.look, s.server = look, w.cluster.Servers[i]
			s.named("{" + name + "}" + kind)
			NoError(t, newPlay(&s, kinds[kind]).tells(steps))
		}
	}
}

// Locks are renewed while their slot moves to another node, with a part of their keys on either node.
func TestRenewalInAMovingSlot(t *testing.T) {
	w := onCluster(t)
	ctx := within(t)
	const lease = 6 * time.Second
	locks := w.client(rlock.WithWatchdogTimeout(lease))
	holds, all := make([]*rlock.Hold, 25), make([]*rlock.Lock, 25)
	for i := range holds {
		all[i] = locks.Lock(fmt.Sprintf("{%s}%d", w.name, i))
		holds[i] = must(all[i].Lock(ctx))(t)
	}
	renewed := func() {
		end := func(l *rlock.Lock) time.Time { return time.Now().Add(must(l.RemainTimeToLive(ctx))(t)) }
		before := map[*rlock.Lock]time.Time{}
		for _, l := range all {
			before[l] = end(l).Add(lease / 10)
		}
		for _, l := range all {
			redistest.Eventually(t, "a renewal", func() bool { return end(l).After(before[l]) })
		}
	}
	m := w.moves("{" + w.name + "}0")
	m.Keys(len(holds) / 2)
	renewed()
	m.Keys(len(holds))
	m.End()
	renewed()
	for _, h := range holds {
		NoError(t, h.Err())
		NoError(t, h.Unlock(ctx))
	}
}

// A silent node does not delay giving back a lock on another node that was granted without a holder.
func TestSilentNodeDoesNotDelayOthers(t *testing.T) {
	w := onCluster(t, func(o *redis.ClusterOptions) {
		o.ReadTimeout, o.MaxRedirects, o.DialTimeout = 300*time.Millisecond, -1, 300*time.Millisecond
	})
	names := w.names()[:2]
	for _, name := range names {
		NoError(t, pass(within(t), w.locks.Lock(name)))
	}
	thaw := map[int]func(){}
	for node, name := range names {
		thaw[node] = w.cluster.Servers[node].Freeze(t)
		_, _, err := w.locks.Lock(name).TryLock(context.Background(), 100*time.Millisecond, 0)
		WantErr(t, err, rratelimiter.ErrNoAnswer)
		time.Sleep(500 * time.Millisecond) // until go-redis has given up: the first one comes first
	}
	thaw[1]()
	w.look = w.cluster.Servers[1].Admin()
	redistest.Eventually(t, "the idempotency key of what was given back", func() bool {
		return len(w.look.Keys(t.Context(), "redisson_unlock_latch:*").Val()) > 0
	})
	w.named(names[1])
	NoError(t, w.free())
	thaw[0]()
}

// onSentinel returns an env on a master with a replica.
func onSentinel(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	group := redistest.StartSentinel(t)
	dial := func(...func(*redis.Options)) redis.UniversalClient { return group.Client(t) }
	s := newEnv(t, dial(), dial)
	s.group = group
	return s
}

// replicated returns a client whose locks a replica has.
func (s *env) replicated(wait time.Duration) *rlock.Client {
	return rlock.New(NewClient(s, s.rdb, rratelimiter.WithMinReplicas(1, wait)))
}

// A failover happens while the replica has fallen behind. A lock that the replica has outlives it. A lock
// that the replica lacks gets a second holder while the first one believes that it has the lock, but with a
// greater token. WithMinReplicas does not grant a lock that no replica has.
func TestFailover(t *testing.T) {
	s := onSentinel(t)
	group := s.group
	plain, safe := s.client(rlock.WithWatchdogTimeout(time.Minute)), s.replicated(500*time.Millisecond)
	outlives, twice, none := s.name, redistest.Name(t), redistest.Name(t)
	replicated := must(safe.FencedLock(outlives).Lock(within(t)))(t)
	NoError(t, pass(within(t), safe.FencedLock(twice)))

	// From now on the replica receives nothing, and may not ask for it.
	master := group.Master.Admin()
	NoError(t, master.Do(t.Context(), "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf").Err())
	NoError(t, master.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	second := must(plain.FencedLock(twice).Lock(within(t)))(t)
	WantErr(t, ErrOf(safe.FencedLock(none).Lock(within(t))), rratelimiter.ErrNotReplicated)
	s.named(none)
	NoError(t, s.free())

	group.Failover(t)
	want(t, "owner", must(s.look.HGet(t.Context(), outlives, replicated.Owner()).Result())(t), "1")
	NoError(t, refusal(plain.Lock(outlives).TryLock(within(t), 0, 0)))
	WantErr(t, replicated.Unlock(within(t)), rratelimiter.ErrNotReplicated)
	s.named(outlives)
	NoError(t, s.free())

	third := must(s.client().FencedLock(twice).Lock(within(t)))(t)
	NoError(t, second.Err()) // it knows only when it is renewed
	if third.Token() <= second.Token() {
		t.Errorf("token %d after %d: no fence can tell them apart", third.Token(), second.Token())
	}
	NoError(t, third.Unlock(within(t)))
}

// A replica that is behind gets what it lacks, and the lock is granted. An Unlock and a hand-over also
// wait for it.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	s := onServer(t, master)
	lock, ctx := s.replicated(100*time.Millisecond).Lock(s.name), within(t)
	refused := func(err error) {
		t.Helper()
		WantErr(t, err, rratelimiter.ErrNotReplicated)
	}
	refused(ErrOf(lock.Lock(ctx)))
	NoError(t, s.free())

	replica := redistest.Start(t)
	follow := func(host, port string) {
		NoError(t, replica.Admin().Do(ctx, "REPLICAOF", host, port).Err())
	}
	host, port, _ := net.SplitHostPort(master.Addr)
	follow(host, port)
	var h *rlock.Hold
	redistest.Until(t, "a replica", func() (err error) {
		h, err = lock.Lock(ctx)
		return err
	})
	want(t, "the replica's", must(replica.Admin().HGet(ctx, s.name, h.Owner()).Result())(t), "1")
	follow("NO", "ONE")
	redistest.Eventually(t, "no replica", func() bool {
		return must(master.Admin().Do(ctx, "WAIT", 1, 1).Int())(t) == 0
	})
	refused(h.Relock(ctx))
	NoError(t, h.Err())
	refused(h.Unlock(ctx)) // and yet
	NoError(t, s.free())
	WantErr(t, h.Unlock(ctx), rlock.ErrNotHeld)
}

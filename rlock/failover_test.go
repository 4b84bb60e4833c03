package rlock_test

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

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

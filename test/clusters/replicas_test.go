package clusters_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A followed is a limiter of 10 an hour on a master that has one replica.
type followed struct {
	*testing.T
	master, replica *redistest.Server
	proxy           *redistest.Proxy // before the master
	client          *rratelimiter.Client
	l               *rratelimiter.RateLimiter
}

// newFollowed returns a limiter whose calls want a number of replicas within a time.
func newFollowed(t *testing.T, replicas int, within time.Duration) *followed {
	t.Helper()
	f := &followed{T: t, master: redistest.Start(t, "--repl-diskless-sync-delay", "0")}
	host, port, _ := net.SplitHostPort(f.master.Addr)
	f.replica = redistest.Start(t, "--replicaof", host, port)
	f.follows(f.replica)
	f.proxy = redistest.StartProxy(t, f.master.Addr)
	rdb := f.master.Client(t, func(o *redis.Options) { o.Addr = f.proxy.Addr })
	f.client = rratelimiter.New(rdb, rratelimiter.WithMinReplicas(replicas, within))
	t.Cleanup(func() { _ = f.client.Close() })
	f.l = f.client.RateLimiter(redistest.Name(t))
	plain := NewClient(t, f.master.Admin())
	NoError(t, plain.RateLimiter(f.l.Name()).SetRate(t.Context(), Overall, 10, time.Hour))
	f.replicated(1)
	return f
}

func (f *followed) follows(s *redistest.Server) {
	f.Helper()
	Until(f.T, func() bool {
		return strings.Contains(s.Admin().Info(f.Context(), "replication").Val(), "master_link_status:up")
	})
}

// replicated waits until a number of replicas have what the master has. Sentinels look for
// a replica of a former master every 10 s only, and a copy that failed begins anew later.
func (f *followed) replicated(replicas int) {
	f.Helper()
	conn := f.master.Admin().Conn()
	defer conn.Close()
	NoError(f.T, conn.Set(f.Context(), "last", redistest.Name(f.T), 0).Err())
	if n, err := conn.Wait(f.Context(), replicas, Patience).Result(); int(n) != replicas || err != nil {
		f.Fatal("the replica does not follow:", n, err)
	}
}

// out returns the permits of all records on a server.
func (f *followed) out(s *redistest.Server) int64 {
	f.Helper()
	return outOf(f.T, s.Admin(), f.l.Name())
}

// refuses expects an ErrNotReplicated that says how many replicas there were.
func (f *followed) refuses(err error, parts ...string) {
	f.Helper()
	var answer redis.Error
	if !errors.Is(err, rratelimiter.ErrNotReplicated) || !errors.As(err, &answer) {
		f.Errorf("%v, want ErrNotReplicated", err)
	}
	WantText(f.T, err, append(parts, `"`+f.l.Name()+`"`)...)
}

// When a call returns, the replica has its grant, or whatever else it changed.
func TestReplicasHaveWhatACallHasDone(t *testing.T) {
	const within = 3 * time.Second
	f := newFollowed(t, 1, within)
	l, key := f.l, "{"+f.l.Name()+"}:value"
	start := time.Now()
	var waits int
	var mu sync.Mutex
	stop := f.proxy.Observe(func(args []string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.EqualFold(args[0], "wait") {
			waits++
		}
	})
	has := func(what string, err error, want string) {
		t.Helper()
		NoError(t, err)
		if got := f.replica.Admin().Get(t.Context(), key).Val(); got != want {
			t.Errorf("%s: the replica has %q, want %q", what, got, want)
		}
	}
	has("acquire", Yes(l.TryAcquire(t.Context(), 4, 0)), "6")
	_, err := l.Allow(t.Context(), 1)
	has("allow", err, "5")
	has("release", l.Release(t.Context(), 2), "7")
	has("refused", No(l.TryAcquire(t.Context(), 8, 0)), "7")
	has("update", Yes(l.UpdateRate(t.Context(), Overall, 20, time.Hour, rratelimiter.WithKeepState())), "17")
	has("set rate", l.SetRate(t.Context(), Overall, 10, time.Hour), "")
	has("no try", No(l.TrySetRate(t.Context(), Overall, 20, time.Hour)), "")
	r, err := l.Reserve(t.Context(), 4, 0)
	has("reserve", err, "6")
	has("settle", r.Settle(t.Context(), 1), "9")
	_, err = l.Charge(t.Context(), 2)
	has("charge", err, "7")
	NoError(t, Yes(l.Expire(t.Context(), time.Hour)))
	if ttl := f.replica.Admin().PTTL(t.Context(), l.Name()).Val(); ttl <= 0 {
		t.Error("expire: the replica has", ttl)
	}
	old := l.Name()
	NoError(t, l.Rename(t.Context(), "other"))
	if n := f.replica.Admin().Exists(t.Context(), old).Val(); n != 0 {
		t.Error("rename: the replica has the old name")
	}
	NoError(t, Yes(l.Delete(t.Context())))
	if n := f.replica.Admin().Exists(t.Context(), "other").Val(); n != 0 {
		t.Error("delete: the replica has it")
	}
	if took := time.Since(start); took > 3*within { // a dozen calls
		t.Errorf("%v for calls whose replica is there", took)
	}
	NoError(t, ErrOf(l.Exists(t.Context())))
	stop()
	mu.Lock()
	defer mu.Unlock()
	if waits < 9 {
		t.Errorf("%d times WAIT", waits)
	}
}

// A replica that stands still: the call returns an error after the timeout of the
// option, and what it took goes back, on the replica as well when it goes on.
func TestTooFewReplicasAreAnError(t *testing.T) {
	const within = 300 * time.Millisecond
	f := newFollowed(t, 1, within)
	NoError(t, Yes(f.l.TryAcquire(t.Context(), 1, 0)))
	thaw := f.replica.Freeze(t)
	start := time.Now()
	ok, err := f.l.TryAcquire(t.Context(), 4, 0)
	if took := time.Since(start); ok || took < within || took > Patience {
		t.Error(ok, "after", took)
	}
	f.refuses(err, "0 of 1 replicas", within.String())
	Until(t, func() bool { return f.out(f.master) == 1 })

	f.refuses(f.l.SetRate(t.Context(), Overall, 5, time.Hour))
	config, err := f.l.Config(t.Context())
	if err != nil || config.Rate != 5 {
		t.Error("a rate that is set on the master only:", config, err)
	}
	f.refuses(ErrOf(f.l.Expire(t.Context(), time.Hour)))
	thaw()
	Until(t, func() bool { return ErrOf(f.l.Expire(t.Context(), time.Hour)) == nil })
	NoError(t, Yes(f.l.TryAcquire(t.Context(), 2, 0)))
	if n := f.out(f.replica); n != f.out(f.master) {
		t.Errorf("the replica has %d permits out, the master %d", n, f.out(f.master))
	}
}

// A lease hands out permits only if the replicas have it: without a replica the next one is not used.
func TestALeaseNeedsReplicas(t *testing.T) {
	f := newFollowed(t, 1, 300*time.Millisecond)
	NoError(t, f.l.SetRate(t.Context(), Overall, 100_000, time.Minute))
	const lasts = 500 * time.Millisecond
	l := f.l.WithLease(rratelimiter.LeaseOptions{Max: lasts})
	scripts := func() int64 { return redistest.Calls(t, f.master.Admin(), "evalsha") }
	leased := func() bool {
		before := scripts()
		NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
		return scripts() == before
	}
	Until(t, leased)
	f.replica.Freeze(t)
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Millisecond) {
		_, _ = l.TryAcquire(t.Context(), 1, 0) // from the lease, which asks for the next one
	}
	for range 6 {
		f.refuses(ErrOf(l.TryAcquire(t.Context(), 1, 0)))
	}
}

// A refused call changes nothing, so it waits for no replica. Nor does Repair.
func TestARefusalNeedsNoReplica(t *testing.T) {
	f := newFollowed(t, 2, 20*time.Millisecond) // there is one
	NoError(t, No(f.l.TrySetRate(t.Context(), Overall, 5, time.Hour)))
	NoError(t, ErrOf(f.l.Peek(t.Context())))
	f.refuses(ErrOf(f.l.TryAcquire(t.Context(), 5, 0)), "1 of 2 replicas")
	f.refuses(f.l.Acquire(t.Context(), 10), "1 of 2 replicas")
	Until(t, func() bool { return f.out(f.master) == 0 })

	plain := NewClient(t, f.master.Admin())
	NoError(t, Yes(plain.RateLimiter(f.l.Name()).TryAcquire(t.Context(), 10, 0)))
	NoError(t, No(f.l.TryAcquire(t.Context(), 1, 0)))
	r, err := f.l.Allow(t.Context(), 1)
	if r.Allowed || r.Limit != 10 || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	f.refuses(f.l.Release(t.Context(), 3))
	Until(t, func() bool { return f.out(f.master) == 7 })
	NoError(t, f.master.Admin().Set(t.Context(), "{"+f.l.Name()+"}:value", 9, 0).Err())
	if repaired, err := f.l.Repair(t.Context()); repaired.Drift != 6 || err != nil {
		t.Errorf("%+v, %v", repaired, err)
	}
}

// If a reply is lost, of the script or of WAIT behind it, the request is sent
// again: it is charged once, and the replica has it.
func TestALostConfirmationIsChargedOnce(t *testing.T) {
	f := newFollowed(t, 1, time.Second)
	for i, lost := range []func(args []string) bool{
		IsScript,
		func(args []string) bool { return strings.EqualFold(args[0], "wait") },
	} {
		f.proxy.SwallowReplyTo(1, lost)
		before := f.proxy.Swallowed()
		NoError(t, Yes(f.l.TryAcquire(t.Context(), 2, 0)))
		if f.proxy.Swallowed() == before {
			t.Error("no reply was lost")
		}
		if want := int64(2 * (i + 1)); f.out(f.master) != want || f.out(f.replica) != want {
			t.Errorf("%d permits are out, %d on the replica; want %d",
				f.out(f.master), f.out(f.replica), want)
		}
	}
}

// A copy of a request changes nothing. Its WAIT still covers the first copy, which another connection wrote.
func TestACopyWaitsForReplicasToo(t *testing.T) {
	t.Run("default", copyWaits)
	for _, release := range redistest.Releases { // since Redis 7.2 a copy that only reads would not
		t.Run(release.String(), func(t *testing.T) {
			t.Setenv("REDIS_SERVER", release.Binary(t))
			copyWaits(t)
		})
	}
}

func copyWaits(t *testing.T) {
	f := newFollowed(t, 1, 300*time.Millisecond)
	NoError(t, Yes(f.l.TryAcquire(t.Context(), 1, 0)))
	thaw := f.replica.Freeze(t)
	defer thaw()
	f.proxy.SwallowReplyTo(1, IsScript)
	f.refuses(ErrOf(f.l.TryAcquire(t.Context(), 2, 0)), "0 of 1")
	if f.proxy.Swallowed() != 1 {
		t.Error("no reply was lost")
	}
	Until(t, func() bool { return f.out(f.master) == 1 })

	thaw()
	f.replicated(1)
	reserve := func() *rratelimiter.Reservation {
		r, err := f.l.Reserve(t.Context(), 3, 0)
		NoError(t, err)
		return r
	}
	NoError(t, reserve().Cancel(t.Context())) // loads the script
	r := reserve()
	thaw = f.replica.Freeze(t)
	defer thaw()
	f.proxy.SwallowReplyTo(1, IsScript)
	f.refuses(r.Settle(t.Context(), 1), "0 of 1")
	if n := f.out(f.master); f.proxy.Swallowed() != 2 || n != 2 {
		t.Errorf("%d permits are out, want 2", n)
	}
}

// A caller's own timeout and context are kept while Redis waits for replicas.
func TestACallerDoesNotWaitForReplicas(t *testing.T) {
	f := newFollowed(t, 1, 2*time.Second)
	f.replica.Freeze(t)
	for what, call := range map[string]func(ctx context.Context) error{
		"timeout": func(ctx context.Context) error {
			return ErrOf(f.l.TryAcquire(context.WithoutCancel(ctx), 1, 100*time.Millisecond))
		},
		"context":  func(ctx context.Context) error { return f.l.Acquire(ctx, 1) },
		"set rate": func(ctx context.Context) error { return f.l.SetRate(ctx, Overall, 10, time.Hour) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		err := call(ctx)
		// 30 ms of grace for a reply on its way; a busy machine needs more, but not the 2 s of the option.
		if took := time.Since(start); err == nil || took >= 2*time.Second {
			t.Errorf("%s: %v after %v", what, err, took)
		}
		cancel()
	}
}

// A user that may not send WAIT gets an error, and nothing is kept.
func TestReplicasWithoutTheRightAreAnError(t *testing.T) {
	f := newFollowed(t, 1, time.Second)
	NoError(t, f.master.Admin().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*",
		"+@all", "-wait").Err())
	rdb := f.master.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	c := NewClient(t, rdb, rratelimiter.WithMinReplicas(1, time.Second))
	_, err := c.RateLimiter(f.l.Name()).TryAcquire(t.Context(), 1, 0)
	if !redis.IsPermissionError(err) && !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("%v, want NOPERM", err)
	}
	WantText(t, err, f.l.Name(), "WAIT", "NOPERM")
	Until(t, func() bool { return f.out(f.master) == 0 })
}

// On a cluster WAIT goes to the node that carries the script out, also when that is
// another one than the client knew: after a failover, and while a slot moves.
func TestWaitGoesToTheNodeOfTheScript(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t, redistest.WithReplicas(1))
	rdb := cluster.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = 20 })
	c := NewClient(t, rdb, rratelimiter.WithMinReplicas(1, 3*time.Second))
	for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
		for range 4 {
			name := redistest.Name(t)
			wholeLife(t, c.RateLimiter(name), typ, "{"+name+"}:new")
		}
	}
	confirmed := func(l *rratelimiter.RateLimiter, want int) {
		t.Helper()
		NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
		cluster.Agree(t) // a replica that has not heard of a move replies MOVED
		has := 0         // servers that have the records
		for _, s := range cluster.Servers {
			if copied(t, s, l.Name()) == int64(want) {
				has++
			}
		}
		if has != 2 {
			t.Errorf("%d servers have all %d records, want a master and its replica", has, want)
		}
	}
	l := c.RateLimiter(redistest.Name(t))
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	confirmed(l, 1)

	m := moveOn(t, cluster, l.Name())
	confirmed(l, 2)
	for _, key := range []string{l.Name(), "{" + l.Name() + "}:value", "{" + l.Name() + "}:permits"} {
		m.Key(key)
	}
	NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0))) // the former node replies ASK
	m.End()
	confirmed(l, 4) // and MOVED

	for _, s := range cluster.Servers[3:] {
		NoError(t, s.Admin().ClusterFailover(t.Context()).Err())
		Until(t, func() bool { return s.Admin().Do(t.Context(), "ROLE").Val().([]any)[0] == "master" })
	}
	cluster.Agree(t)
	for _, s := range cluster.Servers[:3] {
		(&followed{T: t}).follows(s)
	}
	confirmed(l, 5)

	lacking := NewClient(t, rdb, rratelimiter.WithMinReplicas(2, 10*time.Millisecond))
	f := &followed{T: t, l: l}
	f.refuses(ErrOf(lacking.RateLimiter(l.Name()).TryAcquire(t.Context(), 1, 0)), "1 of 2")
	Until(t, func() bool { r, err := l.Peek(t.Context()); return err == nil && r.Remaining == 5 })
}

package concurrency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

// onRedis returns leases on a server.
func onRedis(t *testing.T, l concurrency.Limit, rdb *redis.Client, name string) *concurrency.Leases {
	t.Helper()
	return redistest.Must(l.LeasesOnRedis(rdb, name))(t)
}

// A gauge is the permits that callers hold.
type gauge struct {
	held, worst atomic.Int64
}

func (g *gauge) add(n int64) {
	for now := g.held.Add(n); ; {
		worst := g.worst.Load()
		if now <= worst || g.worst.CompareAndSwap(worst, now) {
			return
		}
	}
}

// However many take and give back, in memory or by two clients of one server, they never
// hold more than Most at once, and all are served.
func TestNeverMore(t *testing.T) {
	const most, callers, rounds = 7, 12, 25
	l := concurrency.Limit{Most: most, Lease: time.Hour}
	server, name := redistest.Start(t), redistest.Name(t)
	memory := redistest.Must(l.LeasesInMemory())(t)
	for what, pools := range map[string][]pool{
		"memory": {memory},
		"Redis":  {onRedis(t, l, server.Client(t), name), onRedis(t, l, server.Client(t), name)},
	} {
		t.Run(what, func(t *testing.T) {
			var g gauge
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 1))
					for range rounds {
						g.round(t, pools[i%len(pools)], 1+random.Int64N(most))
					}
				})
			}
			all.Wait()
			if worst := g.worst.Load(); worst > most || worst < 2 {
				t.Errorf("%d of %d were held at once", worst, most)
			}
			takes(t, pools[0], most, true)
		})
	}
}

// round takes permits and gives them back.
func (g *gauge) round(t *testing.T, p pool, n int64) {
	lease, err := p.Acquire(t.Context(), n)
	if err != nil {
		t.Error(err)
		return
	}
	g.add(n)
	if n%3 == 0 {
		if err := lease.Extend(t.Context()); err != nil {
			t.Error(err)
		}
	}
	g.add(-n)
	returns(t, lease, nil)
}

// far is a client through a proxy.
func far(t *testing.T, server *redistest.Server) (*redis.Client, *redistest.Proxy) {
	t.Helper()
	proxy := redistest.StartProxy(t, server.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Second, MaxRetries: 2})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, proxy
}

func isScript(args []string) bool { return strings.HasPrefix(strings.ToLower(args[0]), "eval") }

// isTake reports whether a script takes: it has two arguments more than that which keeps.
func isTake(args []string) bool { return isScript(args) && len(args) == 8 }

// refusesToGuess expects the error of a TryAcquire that had no reply.
func refusesToGuess(t *testing.T, p pool, n int64) {
	t.Helper()
	lease, ok, err := p.TryAcquire(t.Context(), n)
	if lease != nil || ok || err == nil {
		t.Errorf("TryAcquire(%d): %v %v %v, and no reply has come", n, lease, ok, err)
	}
}

// A lease whose reply was lost is an error, and is given back by its ID, with no other call.
func TestLostReplyOfTake(t *testing.T) {
	server, name := redistest.Start(t), redistest.Name(t)
	rdb, proxy := far(t, server)
	p := onRedis(t, concurrency.Limit{Most: 3, Lease: time.Hour}, rdb, name)
	lease := takes(t, p, 1, true)
	proxy.SwallowReplyTo(1, isTake)
	refusesToGuess(t, p, 2)
	redistest.Until(t, "the end of the lease", func() error {
		n, err := server.Admin().ZCard(t.Context(), "{"+name+"}:concurrency").Result()
		if err == nil && n != 2 { // one lease, and the sum
			err = fmt.Errorf("%d members", n)
		}
		return err
	})
	takes(t, p, 2, true)
	returns(t, lease, nil)
	if n := proxy.Swallowed(); n != 1 {
		t.Errorf("%d replies were lost", n)
	}
}

// A request that is late is not sent a second time: nobody has a lease that the first copy
// takes once more when it was given back.
func TestLateTake(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	rdb := server.Client(t, func(o *redis.Options) {
		o.Addr, o.ReadTimeout, o.MaxRetries = proxy.Addr, 200*time.Millisecond, 2
	})
	p := onRedis(t, concurrency.Limit{Most: 1, Lease: time.Hour}, rdb, redistest.Name(t))
	returns(t, takes(t, p, 1, true), nil)
	var sent atomic.Int64
	stop := proxy.Observe(func(args []string) {
		if isTake(args) {
			sent.Add(1)
		}
	})
	defer stop()
	late := proxy.HoldNext(1, isTake)
	refusesToGuess(t, p, 1)
	late()
	if n := sent.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

// What keeps a lease is sent again if its reply is lost: done twice, it has done the same.
func TestLostReplies(t *testing.T) {
	server := redistest.Start(t)
	rdb, proxy := far(t, server)
	p := onRedis(t, concurrency.Limit{Most: 3, Lease: time.Hour}, rdb, redistest.Name(t))
	returns(t, takes(t, p, 1, true), nil) // the server knows the scripts
	lease := takes(t, p, 2, true)
	proxy.SwallowReplyTo(1, isScript)
	redistest.NoError(t, lease.Extend(t.Context()))
	proxy.SwallowReplyTo(1, isScript)
	returns(t, lease, nil)
	takes(t, p, 3, true)
	if n := proxy.Swallowed(); n != 2 {
		t.Errorf("%d replies were lost", n)
	}
}

// A Release that has failed may have been done: another one says whether all is well.
func TestReleaseAfterFailure(t *testing.T) {
	server := redistest.Start(t)
	rdb, proxy := far(t, server)
	p := onRedis(t, concurrency.Limit{Most: 3, Lease: time.Hour}, rdb, redistest.Name(t))
	returns(t, takes(t, p, 1, true), nil)
	lease := takes(t, p, 3, true)
	proxy.SwallowReplyTo(3, isScript)
	if err := lease.Release(t.Context()); err == nil || errors.Is(err, concurrency.ErrExpired) {
		t.Errorf("Release: %v, and no reply has come", err)
	}
	returns(t, lease, nil)
	takes(t, p, 3, true)
}

// What a caller was granted that has left is given back, by the ID of its lease.
func TestCallerHasLeft(t *testing.T) {
	server := redistest.Start(t)
	rdb, proxy := far(t, server)
	name := redistest.Name(t)
	l := concurrency.Limit{Most: 3, Lease: time.Hour}
	p, near := onRedis(t, l, rdb, name), onRedis(t, l, server.Admin(), name)
	other := takes(t, p, 1, true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _, before, _ := proxy.Stats()
	proxy.Delay(300 * time.Millisecond)
	left := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, 2)
		left <- err
	}()
	redistest.Until(t, "the request", func() error {
		if _, _, now, _ := proxy.Stats(); now == before {
			return errors.New("none")
		}
		return nil
	})
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire: %v", err)
	}
	proxy.Delay(0)
	redistest.Until(t, "the permits", func() error {
		lease, ok, err := near.TryAcquire(t.Context(), 2)
		if err == nil && !ok {
			return errors.New("none")
		}
		if err == nil {
			returns(t, lease, nil)
		}
		return err
	})
	returns(t, other, nil)
}

// One call for each of take, extend and release; and what is in Redis: a member for each
// lease, and the sum.
func TestInRedis(t *testing.T) {
	server, name := redistest.Start(t), redistest.Name(t)
	rdb, key := server.Client(t), "{"+name+"}:concurrency"
	p := onRedis(t, concurrency.Limit{Most: 1 << 40, Lease: time.Minute}, rdb, name)
	returns(t, takes(t, p, 1, true), nil)
	var trips redistest.RoundTrips
	rdb.AddHook(&trips)
	before := trips.Load()
	lease := takes(t, p, 1<<40-1, true)
	redistest.NoError(t, lease.Extend(t.Context()))
	other := takes(t, p, 1, true)
	returns(t, lease, nil)
	if n := trips.Load() - before; n != 4 {
		t.Errorf("%d round trips, want 4", n)
	}
	ctx, admin := t.Context(), server.Admin()
	if all := admin.ZRangeWithScores(ctx, key, 0, -1).Val(); len(all) != 2 || all[0].Score != -1 ||
		!strings.HasSuffix(all[1].Member.(string), ":1:60000000") {
		t.Errorf("in Redis: %+v", all)
	}
	if ttl := admin.PTTL(ctx, key).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the time to live is %v", ttl)
	}
	returns(t, other, nil)
	if n := admin.Exists(ctx, key).Val(); n != 0 {
		t.Error("the key is there, and no lease is out")
	}
}

// Two services may set other numbers: a lease keeps its length, and each has its own Most.
func TestOtherNumbers(t *testing.T) {
	server, name := redistest.Start(t), redistest.Name(t)
	rdb := server.Client(t)
	old := onRedis(t, concurrency.Limit{Most: 10, Lease: time.Hour}, rdb, name)
	young := onRedis(t, concurrency.Limit{Most: 3, Lease: 50 * time.Millisecond}, rdb, name)
	long := takes(t, old, 2, true)
	takes(t, young, 1, true)
	takes(t, young, 1, false)
	rest := takes(t, old, 7, true)
	r, err := young.Allow(t.Context(), 1)
	if err != nil || r.Allowed || r.Remaining != 0 || r.RetryAfter <= 0 {
		t.Errorf("%+v %v", r, err)
	}
	returns(t, rest, nil)
	// The short lease is over, and the long one is not.
	redistest.Until(t, "the end of the short lease", func() error {
		lease, ok, err := old.TryAcquire(t.Context(), 8)
		if err != nil || !ok {
			return errors.Join(err, errors.New("not yet"))
		}
		return lease.Release(t.Context())
	})
	takes(t, old, 9, false)
	returns(t, long, nil)
}

// An administrator may remove a member. The sum is found again by a minute later.
func TestSumIsFoundAgain(t *testing.T) {
	server, set := redistest.StartClocked(t)
	name := redistest.Name(t)
	key := "{" + name + "}:concurrency"
	p := onRedis(t, concurrency.Limit{Most: 2, Lease: time.Hour}, server.Client(t), name)
	takes(t, p, 1, true)
	takes(t, p, 1, true)
	admin := server.Admin()
	last := admin.ZRange(t.Context(), key, -1, -1).Val()[0]
	redistest.NoError(t, admin.ZRem(t.Context(), key, last).Err())
	set(61 * time.Second)
	returns(t, takes(t, p, 1, true), nil)
	takes(t, p, 2, false)
}

// The clock of the server is set back by an hour: nobody waits for longer than a lease.
func TestClockOfServer(t *testing.T) {
	server, set := redistest.StartClocked(t)
	p := onRedis(t, concurrency.Limit{Most: 2, Lease: time.Minute}, server.Client(t), redistest.Name(t))
	set(time.Hour)
	lease := takes(t, p, 2, true)
	set(0)
	r, err := p.Allow(t.Context(), 1)
	if err != nil || r.Allowed || r.RetryAfter > time.Minute || r.ResetAfter > time.Minute {
		t.Errorf("%+v %v", r, err)
	}
	set(61 * time.Second)
	takes(t, p, 2, true)
	returns(t, lease, concurrency.ErrExpired)
}

// It is set back by so little that the sum is still believed: the last lease shows it.
func TestClockOfServerBySome(t *testing.T) {
	const lease = 40 * time.Second
	server, set := redistest.StartClocked(t)
	p := onRedis(t, concurrency.Limit{Most: 2, Lease: lease}, server.Client(t), redistest.Name(t))
	takes(t, p, 1, true)
	set(30 * time.Second)
	takes(t, p, 1, true)
	set(5 * time.Second)
	r, err := p.Allow(t.Context(), 1)
	if err != nil || r.Allowed || r.ResetAfter > lease {
		t.Errorf("%+v %v", r, err)
	}
}

// A limit has at most 2,000 grants, so that a script ends soon.
func TestMostGrants(t *testing.T) {
	const grants = 2_000
	l := concurrency.Limit{Most: 1 << 40, Lease: time.Hour}
	memory := redistest.Must(l.InMemory())(t)
	server, name := redistest.Start(t), redistest.Name(t)
	shared := redistest.Must(l.OnRedis(server.Client(t), name))(t)
	for range grants {
		redistest.Must(memory.Allow(t.Context(), 2))(t)
	}
	pipe := server.Admin().Pipeline()
	key, now := "{"+name+"}:concurrency", time.Now()
	for i := range grants {
		pipe.ZAdd(t.Context(), key, redis.Z{
			Score:  float64(now.UnixMicro() + int64(time.Hour/time.Microsecond) - grants + int64(i)),
			Member: fmt.Sprintf("other@%d:2:%d", i, int64(time.Hour/time.Microsecond)),
		})
	}
	_, err := pipe.Exec(t.Context())
	redistest.NoError(t, err)
	for what, p := range map[string]limit.Releaser{"memory": memory, "Redis": shared} {
		r, err := p.Allow(t.Context(), 1)
		if err != nil || r.Allowed || r.Remaining != 0 || r.RetryAfter < 59*time.Minute ||
			r.RetryAfter > time.Hour {
			t.Errorf("%s: %+v %v", what, r, err)
		}
		redistest.NoError(t, p.Release(t.Context(), 2))
		if r, err := p.Allow(t.Context(), 1<<40-2*grants); err != nil || !r.Allowed {
			t.Errorf("%s: %+v %v", what, r, err)
		}
	}
}

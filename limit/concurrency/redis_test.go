package concurrency_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

// onRedis returns leases on a server.
func onRedis(t *testing.T, l concurrency.Limit, rdb *redis.Client, name string) concurrency.Leases {
	t.Helper()
	return redistest.Must(l.OnRedis(rdb, name))(t)
}

// In memory and for two clients of one server, callers hold at most Most permits at once, and all are served.
func TestCallersNeverHoldMoreThanMost(t *testing.T) {
	const most, callers, rounds = 7, 12, 25
	l := concurrency.Limit{Most: most, Lease: time.Hour}
	server, name := redistest.Start(t), redistest.Name(t)
	for what, pools := range map[string][]concurrency.Leases{
		"memory": {redistest.Must(l.InMemory())(t)},
		"Redis":  {onRedis(t, l, server.Client(t), name), onRedis(t, l, server.Client(t), name)},
	} {
		t.Run(what, func(t *testing.T) {
			var held, worst atomic.Int64
			round := func(p concurrency.Leases, n int64) {
				lease := redistest.Must(p.Acquire(t.Context(), n))(t)
				now := held.Add(n)
				for old := worst.Load(); now > old && !worst.CompareAndSwap(old, now); old = worst.Load() {
				}
				if n%3 == 0 {
					redistest.NoError(t, lease.Extend(t.Context()))
				}
				held.Add(-n)
				returns(t, lease)
			}
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 1))
					for range rounds {
						round(pools[i%len(pools)], 1+random.Int64N(most))
					}
				})
			}
			all.Wait()
			if worst := worst.Load(); worst > most || worst < 2 {
				t.Errorf("%d of %d were held at once", worst, most)
			}
			takes(t, pools[0], most)
		})
	}
}

// A far is a Leases whose calls reach a server through a proxy. The server knows the scripts.
type far struct {
	concurrency.Leases
	server *redistest.Server
	proxy  *redistest.Proxy
	name   string
}

// fromAfar returns a far with leases of an hour, of which at most most are out. Each try waits for patience.
func fromAfar(t *testing.T, most int64, patience time.Duration) far {
	t.Helper()
	f := far{server: redistest.Start(t), name: redistest.Name(t)}
	f.proxy = redistest.StartProxy(t, f.server.Addr)
	f.Leases = onRedis(t, concurrency.Limit{Most: most, Lease: time.Hour},
		f.server.Client(t, func(o *redis.Options) {
			o.Addr, o.ReadTimeout, o.MaxRetries = f.proxy.Addr, patience, 2
		}), f.name)
	returns(t, takes(t, f.Leases, 1))
	return f
}

// isTake reports whether a command runs take.lua, which has two arguments more than keep.lua.
func isTake(args []string) bool { return redistest.IsScript(args) && len(args) == 8 }

// counts counts the commands of a kind that are sent from now on.
func (f far) counts(t *testing.T, kind func(args []string) bool) *atomic.Int64 {
	t.Helper()
	n := new(atomic.Int64)
	t.Cleanup(f.proxy.Observe(func(args []string) {
		if kind(args) {
			n.Add(1)
		}
	}))
	return n
}

// refusesToGuess expects TryAcquire to fail without a reply.
func refusesToGuess(t *testing.T, l concurrency.Leases, n int64) {
	t.Helper()
	lease, ok, err := l.TryAcquire(t.Context(), n)
	if lease != nil || ok || err == nil {
		t.Errorf("TryAcquire(%d): %v %v %v, without a reply", n, lease, ok, err)
	}
}

// A lost reply of take.lua is an error, and the lease is given back by its ID, without another call.
func TestALeaseWithALostReplyIsGivenBack(t *testing.T) {
	p := fromAfar(t, 3, time.Second)
	lease := takes(t, p.Leases, 1)
	p.proxy.SwallowReplyTo(1, isTake)
	refusesToGuess(t, p.Leases, 2)
	redistest.Eventually(t, "the end of the lease", func() bool { // one lease is left, and the sum
		return p.server.Admin().ZCard(t.Context(), "{"+p.name+"}:concurrency").Val() == 2
	})
	takes(t, p.Leases, 2)
	returns(t, lease)
	if n := p.proxy.Swallowed(); n != 1 {
		t.Errorf("%d replies were lost", n)
	}
}

// A late request for a lease is not sent again: the first copy could take the lease once more after its
// release.
func TestALateTakeIsNotSentAgain(t *testing.T) {
	p := fromAfar(t, 1, time.Second)
	sent := p.counts(t, isTake)
	late := p.proxy.HoldNext(1, isTake)
	refusesToGuess(t, p.Leases, 1)
	late()
	if n := sent.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

// If Redis is silent, the callers in line wait for one call that hangs, not for one each.
func TestCallersInLineShareASilence(t *testing.T) {
	const callers, patience = 20, 500 * time.Millisecond // longer than a call that is only slow
	p := fromAfar(t, 1, patience)
	lease := takes(t, p.Leases, 1)
	asked := p.counts(t, isTake)
	failed := make(chan error, callers)
	wait := func() {
		_, err := p.Acquire(t.Context(), 1)
		failed <- err
	}
	go wait()
	redistest.Eventually(t, "a caller that asks in line", func() bool { return asked.Load() > 1 })
	appear, silent := p.proxy.Hold(), time.Now()
	for range callers - 1 {
		go wait()
	}
	for range callers {
		if err := <-failed; err == nil || redisx.Answered(err) {
			t.Errorf("%v, want a timeout of go-redis", err)
		}
	}
	if d := time.Since(silent); d > callers/2*patience {
		t.Errorf("%d callers have waited for %v, want one call of three tries of %v", callers, d, patience)
	}
	appear()
	returns(t, lease)
	returns(t, redistest.Must(p.Acquire(t.Context(), 1))(t))
}

// keep.lua is sent again if its reply is lost: carried out twice, it has the same effect. A failed Release
// may have been carried out: another one succeeds.
func TestExtendAndReleaseAreSentAgain(t *testing.T) {
	p := fromAfar(t, 3, time.Second)
	lease := takes(t, p.Leases, 3)
	p.proxy.SwallowReply(1)
	redistest.NoError(t, lease.Extend(t.Context()))
	p.proxy.SwallowReply(3)
	if err := lease.Release(t.Context()); err == nil || errors.Is(err, concurrency.ErrExpired) {
		t.Errorf("Release: %v, without a reply", err)
	}
	returns(t, lease)
	takes(t, p.Leases, 3)
	if n := p.proxy.Swallowed(); n != 4 {
		t.Errorf("%d replies were lost", n)
	}
}

// A call on a lease ends with its context, also while another call on the lease waits for Redis.
func TestACallDoesNotWaitForAnotherOne(t *testing.T) {
	p := fromAfar(t, 1, time.Minute)
	lease := takes(t, p.Leases, 1)
	reply := p.proxy.HoldNext(1, redistest.IsScript)
	extended := make(chan error, 1)
	go func() { extended <- lease.Extend(context.Background()) }()
	redistest.Eventually(t, "the request", func() bool { return p.proxy.Held() == 1 })
	for what, call := range map[string]func(context.Context) error{
		"Release": lease.Release, "Extend": lease.Extend,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s waits for the reply to Extend", what)
		}
		cancel()
	}
	reply()
	redistest.NoError(t, <-extended)
	returns(t, lease)
}

// A lease granted to a caller that has left is given back by its ID.
func TestALeaseOfACallerThatLeftIsGivenBack(t *testing.T) {
	p := fromAfar(t, 3, time.Minute)
	near := onRedis(t, concurrency.Limit{Most: 3, Lease: time.Hour}, p.server.Admin(), p.name)
	other := takes(t, p.Leases, 1)
	returned := p.counts(t, func(args []string) bool { return redistest.IsScript(args) && !isTake(args) })
	formtest.Leave(t, p.proxy, isTake, func(ctx context.Context) error {
		_, err := p.Acquire(ctx, 2)
		return err
	})
	redistest.Eventually(t, "a request that gives back", func() bool { return returned.Load() > 0 })
	redistest.Eventually(t, "the permits", func() bool {
		lease, ok, err := near.TryAcquire(t.Context(), 2)
		if err == nil && ok {
			returns(t, lease)
		}
		return err == nil && ok
	})
	returns(t, other)
}

// Take, extend and release are one round trip each. Redis has a member for each lease, and the sum.
func TestARoundTripAndAMemberForEachLease(t *testing.T) {
	server, name := redistest.Start(t), redistest.Name(t)
	rdb, key := server.Client(t), "{"+name+"}:concurrency"
	p := onRedis(t, concurrency.Limit{Most: 1 << 40, Lease: time.Minute}, rdb, name)
	returns(t, takes(t, p, 1))
	trips := redistest.RoundTrips(rdb)
	before := trips.Load()
	lease := takes(t, p, 1<<40-1)
	redistest.NoError(t, lease.Extend(t.Context()))
	other := takes(t, p, 1)
	returns(t, lease)
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
	returns(t, other)
	if n := admin.Exists(ctx, key).Val(); n != 0 {
		t.Error("the key exists, and no lease is out")
	}
}

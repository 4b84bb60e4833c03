package fallback_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// asks starts callers that ask for single permits until ctx ends, and notes the grants.
func asks(ctx context.Context, l *rratelimiter.RateLimiter, callers int, log *grants.Log,
	all *sync.WaitGroup) {
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				ok, err := l.TryAcquire(ctx, 1, 20*time.Millisecond)
				if ok && err == nil {
					log.Add(grants.Entry{Who: l.Name(), Start: start, End: time.Now(), Permits: 1})
				}
			}
		})
	}
}

// Two processes lose their Redis and find it again, each at its own time. No window has more than
// the rate and one share: not when Redis goes, and not when it is back.
func TestAnOutageAddsOneShareAtMost(t *testing.T) {
	const rate, interval = 100, 2 * time.Second
	for name, away := range map[string]func(s *redistest.Server, proxies []*redistest.Proxy) (back func()){
		"stopped": func(s *redistest.Server, _ []*redistest.Proxy) func() {
			return s.Freeze(t)
		},
		"nothing listens": func(_ *redistest.Server, proxies []*redistest.Proxy) func() {
			for _, p := range proxies {
				p.Down()
				p.Cut()
			}
			return func() {
				for _, p := range proxies {
					p.Up()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			var proxies []*redistest.Proxy
			var limiters []*rratelimiter.RateLimiter
			key := redistest.Name(t)
			for range 2 {
				p := redistest.StartProxy(t, s.Addr)
				rdb := redis.NewClient(&redis.Options{Addr: p.Addr})
				c := rratelimiter.New(rdb, rratelimiter.WithFallback(rratelimiter.FallbackLocal),
					rratelimiter.WithGoOnly())
				t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
				proxies, limiters = append(proxies, p), append(limiters, c.RateLimiter(key))
			}
			NoError(t, limiters[0].SetRate(t.Context(), Overall, rate, interval))
			for _, l := range limiters { // each is there when the other one learns how many they are
				NoError(t, ErrOf(l.WithFallback(rratelimiter.FallbackError).TryAcquire(t.Context(), 1, 0)))
			}
			var log grants.Log
			var all sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, l := range limiters {
				asks(ctx, l, 4, &log, &all)
			}
			time.Sleep(2 * interval)
			before := len(log.Entries())
			back := away(s, proxies)
			time.Sleep(2 * interval)
			during := len(log.Entries()) - before
			back()
			time.Sleep(3 * interval)
			cancel()
			all.Wait()
			after := len(log.Entries()) - before - during
			worst := grants.Limit{Rate: rate, Interval: interval}.Worst(&log, grants.Slack).Permits()
			t.Logf("%d permits before, %d during, %d after; worst window %d", before, during, after, worst)
			// A Client that had all of the rate before keeps it, and the other one takes its
			// share besides (docs/fallback.md). A second window would be twice the rate.
			if most := int64(rate + rate/len(limiters)); worst > most {
				t.Errorf("%d permits within an interval, at most %d may be", worst, most)
			}
			if during < rate*3/2 || after < rate*2 {
				t.Errorf("%d permits in the two intervals of the outage, %d in the three after it", during,
					after)
			}
		})
	}
}

// Part of the servers may be away: only their limiters fall back, and calls of Groups on other servers do not
// wait behind those.
func TestEachServerHasItsCircuit(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (redis.UniversalClient, *redistest.Server){
		"a cluster": func(t *testing.T) (redis.UniversalClient, *redistest.Server) {
			// With full coverage, all nodes refuse calls some time after one has stopped.
			cluster := redistest.StartCluster(t, redistest.WithArgs("--cluster-require-full-coverage", "no"))
			return cluster.Client(t), cluster.Servers[0]
		},
		"a Ring": func(t *testing.T) (redis.UniversalClient, *redistest.Server) {
			live, dead := redistest.Start(t), redistest.Start(t)
			ring := redis.NewRing(&redis.RingOptions{HeartbeatFrequency: time.Hour,
				Addrs: map[string]string{"live": live.Addr, "dead": dead.Addr}})
			t.Cleanup(func() { _ = ring.Close() })
			return ring, dead
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, dead := start(t)
			onEachServer(t, rdb, dead)
		})
	}
}

func onEachServer(t *testing.T, rdb redis.UniversalClient, dead *redistest.Server) {
	t.Helper()
	const each = 3
	c := NewClient(t, rdb, rratelimiter.WithFallback(rratelimiter.FallbackDeny),
		rratelimiter.WithBudget(time.Second)) // longer than a reply takes on a busy machine
	limiters := map[bool][]*rratelimiter.RateLimiter{} // by whether their server will be away
	for i := 0; len(limiters[true]) < each || len(limiters[false]) < each; i++ {
		l := c.RateLimiter(redistest.Name(t) + strconv.Itoa(i))
		NoError(t, l.SetRate(t.Context(), Overall, 1000, time.Hour))
		gone := dead.Admin().Exists(t.Context(), l.Name()).Val() == 1
		limiters[gone] = append(limiters[gone], l)
	}
	expect := func(degraded bool, all []*rratelimiter.RateLimiter) {
		t.Helper()
		for _, l := range all {
			r, err := l.Allow(t.Context(), 1)
			if err != nil || r.Degraded != degraded || r.Allowed == degraded {
				t.Fatalf("%s: %+v, %v; want degraded %v", l.Name(), r, err, degraded)
			}
		}
	}
	thaw := dead.Freeze(t)
	defer thaw()
	plain := NewClient(t, rdb)
	group := func(gone bool) *rratelimiter.Group {
		return plain.All(plain.RateLimiter(limiters[gone][0].Name()))
	}
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	var ended atomic.Int64
	for range 100 {
		all.Go(func() {
			_ = group(true).Acquire(ctx, 1)
			ended.Add(1)
		})
	}
	for range 100 {
		NoError(t, Yes(group(false).TryAcquire(t.Context(), 1, 0)))
	}
	if n := ended.Load(); n > 0 {
		t.Errorf("%d calls to the silent server have ended: they have not held up the others", n)
	}
	for range 4 {
		expect(true, limiters[true])
		expect(false, limiters[false])
	}
	start := time.Now()
	for range 100 {
		expect(true, limiters[true])
	}
	if took := time.Since(start); took > 100*budget {
		t.Errorf("300 calls took %v: each asks Redis", took)
	}
	thaw()
	Until(t, func() bool { return !c.Health().Degraded })
	expect(false, limiters[true])
}

package compat_test

import (
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// go-redis would print each connection that breaks here.
func init() { logging.Disable() }

// A topology is where Go and Java meet: clients of each, and what happens to it.
type topology struct {
	client redis.UniversalClient
	java   string // the name of the instance
}

var _ = Describe("Topologies", func() {
	It("are a cluster with 3 replicas, and a Sentinel with 2, over failovers", func(ctx SpecContext) {
		var both sync.WaitGroup // which mostly wait
		for _, meet := range []func(SpecContext){onCluster, onSentinel} {
			both.Go(func() {
				defer GinkgoRecover()
				meet(ctx)
			})
		}
		both.Wait()
	}, SpecTimeout(4*time.Minute))
})

func onCluster(ctx SpecContext) {
	GinkgoHelper()
	cluster := redistest.StartCluster(GinkgoT(), redistest.WithReplicas(1),
		redistest.WithArgs("--cluster-node-timeout", "2000", "--notify-keyspace-events", "KEA"))
	t := topology{client: cluster.Client(GinkgoT()), java: "on a cluster"}
	t.connect(ctx, javapeer.Cluster(cluster.Addrs...))
	name := redistest.Name(GinkgoT())
	at := 0
	for i, s := range cluster.Servers[:3] {
		if s.Admin().Exists(ctx, name).Err() == nil {
			at = i
		}
	}
	master, replica := cluster.Servers[at], cluster.Servers[at+3]
	serving := func(s *redistest.Server) {
		exists := func() error { return s.Admin().Exists(ctx, name).Err() }
		Eventually(exists, patience, tick).Should(Succeed())
	}
	t.shares(ctx, name)
	t.replicated(ctx, master, name, 1)
	done(replica.Admin().ClusterFailover(ctx).Err())
	serving(replica)
	t.goesOn(ctx, name, replica)
	t.replicated(ctx, replica, name, 1)
	replica.Stop()
	serving(master)
	t.goesOn(ctx, name, master)
}

func onSentinel(ctx SpecContext) {
	GinkgoHelper()
	sentinel := redistest.StartSentinels(GinkgoT(), 2, "--notify-keyspace-events", "KEA")
	t := topology{client: sentinel.Client(GinkgoT()), java: "by sentinels"}
	t.connect(ctx, javapeer.Sentinels(sentinel.MasterName, sentinel.Addrs...))
	name := redistest.Name(GinkgoT())
	t.shares(ctx, name)
	t.replicated(ctx, sentinel.Master, name, 2)
	sentinel.Failover(GinkgoT())
	t.goesOn(ctx, name, sentinel.Master)
	t.replicated(ctx, sentinel.Master, name, 1)
	sentinel.Switch(GinkgoT())
	t.goesOn(ctx, name, sentinel.Master)
}

const (
	patience = 20 * time.Second
	tick     = 50 * time.Millisecond
)

func (t *topology) connect(ctx SpecContext, where javapeer.ConnectOption) {
	GinkgoHelper()
	_, err := peer.Connect(ctx, t.java, "", where)
	done(err)
	DeferCleanup(func(ctx SpecContext) { done(peer.Disconnect(ctx, t.java)) })
}

// sides are a limiter in both languages.
func (t *topology) sides(name string) (java, g limiter) {
	c := rratelimiter.New(t.client)
	DeferCleanup(c.Close)
	return peer.Limiter(t.java, name), compare.Go(c.RateLimiter(name))
}

// replicated waits until that many replicas of the master have what was done.
func (t *topology) replicated(ctx SpecContext, master *redistest.Server, name string, replicas int) {
	GinkgoHelper()
	conn := master.Admin().Conn()
	defer conn.Close()
	done(conn.Expire(ctx, "{"+name+"}:permits", time.Hour).Err()) // a write, for WAIT
	done(conn.Persist(ctx, "{"+name+"}:permits").Err())
	Eventually(func() (int64, error) { return conn.Wait(ctx, replicas, time.Second).Result() }).
		WithTimeout(3 * patience).Should(BeNumerically(">=", replicas)) // a replica may have to begin anew
}

// hears waits until a waiter of Go is notified when Java gives permits back.
func (t *topology) hears(ctx SpecContext, name string) {
	GinkgoHelper()
	master, channel := redis.UniversalClient(t.client), "__keyspace@0__:{"+name+"}:value"
	if cluster, ok := t.client.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, name)
		done(err)
		master = node
	}
	Eventually(func() (map[string]int64, error) { return master.PubSubNumSub(ctx, channel).Result() }).
		WithTimeout(patience).Should(HaveKeyWithValue(channel, BeNumerically(">=", 1)))
}

// shares expects a limiter of 10 to be one in both languages. 4 permits are taken
// after it.
func (t *topology) shares(ctx SpecContext, name string) {
	GinkgoHelper()
	java, g := t.sides(name)
	yes(java.TrySetRate(ctx, config(overall, 5, time.Hour)))
	yes(g.UpdateRate(ctx, config(overall, 10, time.Hour), false))
	Expect(java.Config(ctx)).To(Equal(config(overall, 10, time.Hour)))
	yes(java.TryAcquire(ctx, 4, 0))
	yes(g.TryAcquire(ctx, 6, 0))
	no(java.TryAcquire(ctx, 1, 0))
	no(g.TryAcquire(ctx, 1, 0))
	served := make(chan error, 2)
	go func() { served <- g.Acquire(ctx, 1) }()
	t.hears(ctx, name)
	done(java.Release(ctx, 1))
	done(<-served)
	done(g.Release(ctx, 6))
	is(6)(java.AvailablePermits(ctx))

	short := name + "-short" // waiters of both wait the interval out
	java, g = t.sides(short)
	yes(g.TrySetRate(ctx, config(overall, 2, time.Second)))
	yes(java.TryAcquire(ctx, 1, 0))
	yes(g.TryAcquire(ctx, 1, 0))
	go func() { served <- java.Acquire(ctx, 1) }()
	go func() { served <- g.Acquire(ctx, 1) }()
	done(<-served)
	done(<-served)
}

// writesTo waits until both write to the master. Each learns of it in its own time.
func (t *topology) writesTo(ctx SpecContext, name string, master *redistest.Server) {
	GinkgoHelper()
	mark := "{" + name + "}:mark" // in the slot of the limiter
	java, g := t.sides(mark)
	for _, l := range []limiter{java, g} {
		writes := func() error {
			if _, err := l.Delete(ctx); err != nil {
				return err
			}
			if _, err := l.TrySetRate(ctx, config(overall, 1, time.Hour)); err != nil {
				return err
			}
			n, err := master.Admin().Exists(ctx, mark).Result()
			if err == nil && n == 0 {
				err = fmt.Errorf("%s was written elsewhere than on %s", mark, master.Addr)
			}
			return err
		}
		Eventually(writes, patience, tick).Should(Succeed())
	}
}

// goesOn expects both to work again on a new master, with the 4 permits still missing.
func (t *topology) goesOn(ctx SpecContext, name string, master *redistest.Server) {
	GinkgoHelper()
	t.writesTo(ctx, name, master)
	java, g := t.sides(name)
	left := func() (int64, error) { return java.AvailablePermits(ctx) }
	Eventually(left, patience, tick).Should(Equal(int64(6))) // Java may lose the node once more
	is(6)(g.AvailablePermits(ctx))
	no(g.TryAcquire(ctx, 7, 0))
	yes(java.TryAcquire(ctx, 3, 0))
	yes(g.TryAcquire(ctx, 3, 0))
	no(java.TryAcquire(ctx, 1, 0))
	done(g.Release(ctx, 3))
	done(java.Release(ctx, 3))
}

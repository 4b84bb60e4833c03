package compat_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A lockCluster is a cluster, with an instance of Java and a Client of Go.
type lockCluster struct {
	client string
	rdb    *redis.ClusterClient
	locks  *rlock.Client
}

// start connects to a new cluster, whose user lacks some rights.
func (c *lockCluster) start(ctx context.Context, s *lockSubject, without ...string) {
	GinkgoHelper()
	cluster := redistest.StartCluster(GinkgoT())
	for _, right := range without {
		for _, node := range cluster.Servers {
			done(node.Admin().Do(ctx, "ACL", "SETUSER", "default", right).Err())
		}
	}
	c.client, c.rdb = redistest.Name(GinkgoT()), cluster.Client(GinkgoT())
	_, err := s.peer.Connect(ctx, c.client, "", javapeer.Cluster(cluster.Addrs...))
	done(err)
	DeferCleanup(func(ctx SpecContext) { done(s.peer.Disconnect(ctx, c.client)) })
	limiters := rratelimiter.New(c.rdb)
	DeferCleanup(limiters.Close)
	c.locks = rlock.New(limiters)
}

// clusterSpecs are about messages on a cluster, with Redisson's default mode.
func (s *lockSubject) clusterSpecs() {
	Context("on a cluster", func() {
		c := &lockCluster{}
		BeforeAll(func(ctx SpecContext) { c.start(ctx, s) }, NodeTimeout(time.Minute))

		s.clusterTogetherSpecs(c)

		if s.generation != newest {
			return
		}
		It("tell all of it if Java may not ask for shards; Go fails then", func(ctx SpecContext) {
			if !since7(ctx) {
				Skip("there are none")
			}
			c := &lockCluster{}
			c.start(ctx, s, "-pubsub|shardnumsub")
			a, b := s.holder(ctx, javapeer.Reentrant, c.client), s.holder(ctx, javapeer.Reentrant, c.client)
			a.locks(ctx)
			waits := b.StartLock(b.thread)
			s.waiting(ctx, b)
			Eventually(func() (all int64) { // Java may wait before it listens
				_, all = s.listeners(ctx, c.rdb, s.keys.Channel)
				return all
			}).WithTimeout(patience).Should(Equal(int64(1)))
			a.unlocks(ctx)
			_, err := waits.Wait(ctx)
			done(err)
			b.unlocks(ctx)
			_, err = c.locks.Lock(s.name).Lock(ctx)
			Expect(err).To(MatchError(ContainSubstring("pubsub|shardnumsub")))
		}, SpecTimeout(time.Minute))
	})
}

// toShards reports whether Java tells the shard of a lock on a cluster.
func (s *lockSubject) toShards(ctx context.Context) bool { return s.since(sinceSharded) && since7(ctx) }

// listeners returns how many clients listen to a channel of a shard, and how many to one
// of all nodes.
func (s *lockSubject) listeners(
	ctx context.Context, rdb *redis.ClusterClient, channel string,
) (shards, all int64) {
	GinkgoHelper()
	node, err := rdb.MasterForKey(ctx, s.name)
	done(err)
	if since7(ctx) {
		shards = node.PubSubShardNumSub(ctx, channel).Val()[channel]
	}
	counts := make(chan int64, 3)
	done(rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		n, err := node.PubSubNumSub(ctx, channel).Result()
		counts <- n[channel]
		return err
	}))
	for range 3 {
		all += <-counts
	}
	return shards, all
}

// clusterTogetherSpecs is the spec of locks of a cluster that Go and Java share. Go
// listens to shards where there are any.
func (s *lockSubject) clusterTogetherSpecs(c *lockCluster) {
	It("wake one language when the other unlocks, if Java knows of shards", func(ctx SpecContext) {
		wakes := (*lockSubject).wakesOn
		if since7(ctx) && !s.toShards(ctx) {
			wakes = (*lockSubject).wakesLate
		}
		var all sync.WaitGroup
		defer all.Wait()
		for _, kind := range lockKinds {
			for _, javaFirst := range []bool{false, true} {
				s := &lockSubject{generation: s.generation}
				s.named(redistest.Name(GinkgoT()))
				var first, second rival = &goHolder{goLock: newGoLock(c.locks, kind, s.name)},
					s.holder(ctx, kind, c.client)
				if javaFirst {
					first, second = second, first
				}
				all.Go(func() {
					defer GinkgoRecover()
					wakes(s, ctx, c.rdb, first, second)
				})
			}
		}
	}, SpecTimeout(time.Minute))
}

// wakesOn is wakes on a cluster.
func (s *lockSubject) wakesOn(ctx context.Context, rdb *redis.ClusterClient, first, second rival) {
	GinkgoHelper()
	first.locks(ctx)
	no(second.tries(ctx, 0))
	gets := second.waits(ctx, endless)
	s.awaitsOn(ctx, rdb, second)
	first.unlocks(ctx) // the lease was an hour
	gets()
	no(first.tries(ctx, 0))
	second.unlocks(ctx)
}

// awaitsOn waits until a caller waits for a message about a lock of a cluster: on a shard
// channel, if the language knows of them. For a fair lock it is a channel of its own.
func (s *lockSubject) awaitsOn(ctx context.Context, rdb *redis.ClusterClient, r rival) {
	GinkgoHelper()
	j, ok := r.(javaHolder)
	listeners := []int64{0, 1}
	if ok && s.toShards(ctx) || !ok && since7(ctx) {
		listeners = []int64{1, 0}
	}
	Eventually(ctx, func() []int64 {
		channel := s.keys.Channel
		if waiting := rdb.LRange(ctx, s.keys.Queue, 0, 0).Val(); len(waiting) > 0 {
			channel += ":" + waiting[0]
		}
		shards, all := s.listeners(ctx, rdb, channel)
		return []int64{shards, all}
	}).WithTimeout(patience).WithPolling(time.Millisecond).Should(Equal(listeners))
	if ok {
		s.waiting(ctx, j)
	}
}

// wakesLate has one side unlock what the other waits for, where neither hears the other:
// the waiter gets the lock when the lease that it has read is over.
func (s *lockSubject) wakesLate(ctx context.Context, rdb *redis.ClusterClient, first, second rival) {
	GinkgoHelper()
	const lease = 3 * time.Second
	before := time.Now()
	first.locks(ctx)
	done(rdb.PExpire(ctx, s.name, lease).Err())
	gets := second.waits(ctx, endless)
	s.awaitsOn(ctx, rdb, second)
	first.unlocks(ctx)
	gets()
	// It was not told. A fair lock of Java wakes up earlier by as long as its request has taken.
	Expect(time.Since(before)).To(BeNumerically(">", lease/2))
	second.unlocks(ctx)
}

package compat_test

import (
	"context"
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
				_, all = s.listeners(ctx, c.rdb, s.keys.channel)
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

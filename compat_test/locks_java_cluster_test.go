package compat_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// clusterSpecs is the spec of messages on a cluster, with Redisson's default mode.
func (s *lockSubject) clusterSpecs() {
	It("tell a shard of a cluster, or all of it", func(ctx SpecContext) {
		cluster := redistest.StartCluster(GinkgoT())
		client, rdb := redistest.Name(GinkgoT()), cluster.Client(GinkgoT())
		_, err := s.peer.Connect(ctx, client, "", javapeer.Cluster(cluster.Addrs...))
		done(err)
		DeferCleanup(func(ctx SpecContext) { done(s.peer.Disconnect(ctx, client)) })
		for _, kind := range lockKinds {
			s.named(redistest.Name(GinkgoT()))
			a, b := s.holder(ctx, kind, client), s.holder(ctx, kind, client)
			a.locks(ctx)
			waits := b.StartLock(b.thread)
			s.parked(ctx, b)
			shards, all := s.listeners(ctx, rdb, s.channelOf(kind, b))
			var sub *redis.PubSub
			if s.since(sinceSharded) && since7(ctx) {
				Expect([]int64{shards, all}).To(Equal([]int64{1, 0}))
				sub = rdb.SSubscribe(ctx, s.channelOf(kind, b))
			} else {
				Expect([]int64{shards, all}).To(Equal([]int64{0, 1}))
				sub = rdb.Subscribe(ctx, s.channelOf(kind, b))
			}
			DeferCleanup(sub.Close)
			_, err = sub.Receive(ctx)
			done(err)
			a.unlocks(ctx)
			heard, err := sub.ReceiveMessage(ctx)
			done(err)
			Expect(heard.Payload).To(Equal("0"))
			_, err = waits.Wait(ctx)
			done(err)
			b.unlocks(ctx)
		}
	}, SpecTimeout(time.Minute))
}

// listeners returns how many clients listen to a channel of a shard, and how many to one
// of all nodes.
func (s *lockSubject) listeners(
	ctx SpecContext, rdb *redis.ClusterClient, channel string,
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

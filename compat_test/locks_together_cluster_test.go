package compat_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

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
		channel := s.keys.channel
		if waiting := rdb.LRange(ctx, s.keys.queue, 0, 0).Val(); len(waiting) > 0 {
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

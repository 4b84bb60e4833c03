package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// asks has a Runner find out twice, and expects so many questions.
func asks(t *testing.T, rdb redis.UniversalClient, want bool, questions int64) {
	t.Helper()
	asked := redistest.RoundTrips(rdb)
	r := NewRunner(rdb)
	for range 2 {
		copied := r // as a Client has it
		if has, err := copied.ShardedPubSub(t.Context()); has != want || err != nil {
			t.Errorf("%v, %v, want %v", has, err, want)
		}
	}
	if n := asked.Load(); n != questions {
		t.Errorf("%d questions, want %d", n, questions)
	}
}

func TestShardedPubSub(t *testing.T) {
	s, cluster := redistest.Start(t), redistest.StartCluster(t)
	t.Run("cluster", func(t *testing.T) { asks(t, cluster.Client(t), true, 2) })
	t.Run("cluster, embedded", func(t *testing.T) {
		asks(t, embedsCluster{cluster.Client(t)}, true, 2)
	})
	t.Run("client", func(t *testing.T) { asks(t, s.Client(t), false, 0) })
	t.Run("ring", func(t *testing.T) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr}})
		asks(t, closing(t, ring), false, 0)
	})
	t.Run("servers that are no cluster, as behind Sentinel", func(t *testing.T) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: s.Addr}}}}, nil
			},
		})
		asks(t, closing(t, rdb), false, 2)
	})
}

// Servers before 7 do not know the question.
func TestShardedPubSubOfOldServers(t *testing.T) {
	for _, release := range redistest.Releases {
		if release.Version >= "7" {
			continue
		}
		t.Run(release.String(), func(t *testing.T) {
			t.Setenv("REDIS_SERVER", release.Binary(t))
			asks(t, redistest.StartCluster(t).Client(t), false, 1)
		})
	}
}

// An error that says nothing of the server is returned, and the next call asks again.
func TestShardedPubSubIsAskedForAgain(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, failure := range []error{
		io.EOF, context.DeadlineExceeded,
		serverError("LOADING Redis is loading the dataset in memory"),
		serverError("CLUSTERDOWN The cluster is down"),
		serverError("ERR max number of clients reached"),
		serverError("NOAUTH Authentication required."),
		serverError("WRONGPASS invalid username-password pair or user is disabled."),
		serverError("NOPERM this user has no permissions to run the 'pubsub|shardnumsub' command"),
	} {
		t.Run(fmt.Sprint(failure), func(t *testing.T) {
			rdb, failing := cluster.Client(t), true
			rdb.AddHook(redistest.Hook(func(context.Context, ...redis.Cmder) error {
				if failing {
					return failure
				}
				return nil
			}))
			r := NewRunner(rdb)
			if has, err := r.ShardedPubSub(t.Context()); has || !errors.Is(err, failure) {
				t.Errorf("%v, %v", has, err)
			}
			failing = false
			if has, err := r.ShardedPubSub(t.Context()); !has || err != nil {
				t.Errorf("%v, %v after the failure", has, err)
			}
		})
	}
}

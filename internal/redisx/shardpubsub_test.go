package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An asking hook counts the questions of a client, and fails them with err if that is
// set.
type asking struct {
	times atomic.Int64
	err   atomic.Pointer[error]
}

func (*asking) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*asking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *asking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		a.times.Add(1)
		if err := a.err.Load(); err != nil {
			cmd.SetErr(*err)
			return *err
		}
		return next(ctx, cmd)
	}
}

// expect asks twice, and expects the questions to be asked once at most.
func (a *asking) expect(t *testing.T, rdb redis.UniversalClient, want bool, questions int64) {
	t.Helper()
	rdb.AddHook(a)
	r := NewRunner(rdb)
	for range 2 {
		copied := r // as a Client has it
		if has, err := copied.ShardedPubSub(t.Context()); has != want || err != nil {
			t.Errorf("%v, %v, want %v", has, err, want)
		}
	}
	if n := a.times.Load(); n != questions {
		t.Errorf("%d questions, want %d", n, questions)
	}
}

func TestShardedPubSub(t *testing.T) {
	s, cluster := redistest.Start(t), redistest.StartCluster(t)
	t.Run("cluster", func(t *testing.T) { new(asking).expect(t, cluster.Client(t), true, 2) })
	t.Run("cluster, embedded", func(t *testing.T) {
		new(asking).expect(t, embedsCluster{cluster.Client(t)}, true, 2)
	})
	t.Run("client", func(t *testing.T) { new(asking).expect(t, s.Client(t), false, 0) })
	t.Run("ring", func(t *testing.T) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr}})
		new(asking).expect(t, closing(t, ring), false, 0)
	})
	t.Run("servers that are no cluster, as behind Sentinel", func(t *testing.T) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: s.Addr}}}}, nil
			},
		})
		new(asking).expect(t, closing(t, rdb), false, 2)
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
			new(asking).expect(t, redistest.StartCluster(t).Client(t), false, 1)
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
			rdb, a := cluster.Client(t), new(asking)
			rdb.AddHook(a)
			r := NewRunner(rdb)
			a.err.Store(&failure)
			if has, err := r.ShardedPubSub(t.Context()); has || !errors.Is(err, failure) {
				t.Errorf("%v, %v", has, err)
			}
			a.err.Store(nil)
			if has, err := r.ShardedPubSub(t.Context()); !has || err != nil {
				t.Errorf("%v, %v after the failure", has, err)
			}
		})
	}
}

package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Clients of users that embed one of go-redis, and one that shows no options.
type (
	embedsClient  struct{ *redis.Client }
	embedsCluster struct{ *redis.ClusterClient }
	embedsRing    struct{ *redis.Ring }
	wraps         struct{ redis.UniversalClient }
)

// closing closes a client when the test ends.
func closing[C redis.UniversalClient](t *testing.T, rdb C) C {
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// The kind of a client is known by its methods, so a client that embeds another is of the same kind.
func TestKindOf(t *testing.T) {
	const least, most = time.Millisecond, 3 * time.Millisecond
	single := closing(t, redis.NewClient(&redis.Options{
		DB: 2, MaxRetries: 7, MinRetryBackoff: least, MaxRetryBackoff: most}))
	cluster := closing(t, redis.NewClusterClient(&redis.ClusterOptions{
		MaxRedirects: 7, MinRetryBackoff: least, MaxRetryBackoff: most}))
	ring := closing(t, redis.NewRing(&redis.RingOptions{
		DB: 2, MaxRetries: 7, MinRetryBackoff: least, MaxRetryBackoff: most}))
	failover := closing(t, redis.NewFailoverClient(&redis.FailoverOptions{
		DB: 2, MaxRetries: 7, MinRetryBackoff: least, MaxRetryBackoff: most}))
	routed := closing(t, redis.NewFailoverClusterClient(&redis.FailoverOptions{
		MaxRetries: 7, MinRetryBackoff: least, MaxRetryBackoff: most}))

	one := Kind{Single: true, DB: 2, retries: 7, minBackoff: least, maxBackoff: most}
	nodes := Kind{Sharded: true, retries: 7, minBackoff: least, maxBackoff: most}
	shards := Kind{Sharded: true, DB: 2, retries: 7, minBackoff: least, maxBackoff: most}
	unknown := Kind{retries: defaultRetries, minBackoff: defaultMinBackoff, maxBackoff: defaultMaxBackoff}
	for _, spec := range []struct {
		what    string
		rdb     redis.UniversalClient
		want    Kind
		servers bool // it tells of more than one
		merges  bool // commands travel together; a client of the user's may have a Process of its own
	}{
		{"client", single, one, false, true},
		{"client, embedded", embedsClient{single}, one, false, false},
		{"cluster", cluster, nodes, true, true},
		{"cluster, embedded", embedsCluster{cluster}, nodes, true, false},
		{"ring", ring, shards, true, true},
		{"ring, embedded", embedsRing{ring}, shards, true, false},
		{"failover", failover, one, false, true},
		{"failover, embedded", embedsClient{failover}, one, false, false},
		{"failover with routes", routed, nodes, true, true},
		{"a client that shows no options", wraps{single}, unknown, false, false},
		{"a cluster that shows no options", wraps{cluster}, unknown, false, false},
	} {
		t.Run(spec.what, func(t *testing.T) {
			kind := KindOf(spec.rdb)
			if want := spec.want.Single || spec.want.Sharded; kind.Known() != want {
				t.Errorf("known %v, want %v", kind.Known(), want)
			}
			if kind.rdb != spec.rdb || (kind.servers != nil) != spec.servers {
				t.Errorf("client %v, visits several servers: %v", kind.rdb, kind.servers != nil)
			}
			if got, want := facts(kind), facts(spec.want); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if merges := NewRunner(spec.rdb).outboxes != nil; merges != spec.merges {
				t.Errorf("commands travel together: %v", merges)
			}
		})
	}
}

// facts are the parts of a Kind that can be compared.
func facts(k Kind) [6]any {
	return [6]any{k.Single, k.Sharded, k.DB, k.retries, k.minBackoff, k.maxBackoff}
}

// The options of a client are taken as go-redis understands them: 0 is its default, and
// a negative number is none.
func TestKindOfOptionsThatAreNotSet(t *testing.T) {
	for retries, want := range map[int]int{0: defaultRetries, -1: 0} {
		kind := KindOf(closing(t, redis.NewClient(&redis.Options{MaxRetries: retries})))
		if kind.retries != want || kind.minBackoff <= 0 || kind.maxBackoff <= kind.minBackoff {
			t.Errorf("%d retries: %+v, want %d", retries, kind, want)
		}
	}
}

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

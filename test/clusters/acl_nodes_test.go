package clusters_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// On a cluster the rule and what go-redis needs besides are enough, and nothing of
// that may be left out.
func TestTheRightsOfThePageSufficeOnACluster(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t, redistest.WithReplicas(1),
		redistest.WithArgs("--notify-keyspace-events", "KEA"))
	basic, more := rule(t, ruleOfAll), rule(t, ruleOfCluster)
	var nodes []*redis.Client
	var look *redis.Client
	for _, s := range cluster.Servers {
		nodes = append(nodes, s.Admin())
		if s.Admin().Exists(t.Context(), guardedName).Err() == nil {
			look = s.Admin()
		}
	}
	tries := func(rights []string) (failed map[string]error, denied []string) {
		redistest.Allow(t, "app", rights, nodes...)
		for _, reads := range []bool{false, true} {
			rdb := cluster.Client(t, func(o *redis.ClusterOptions) {
				o.Username, o.Password, o.ReadOnly = "app", "secret", reads
			})
			_ = rdb.Get(t.Context(), guardedName).Err() // of the user's own, from a replica
			g := newGuarded(t, rdb, look)
			g.nodes = nodes
			more, at := g.tries("+eval")
			denied = append(denied, at...)
			if len(more) > 0 {
				failed = more
			}
		}
		return failed, append(denied, redistest.Denied(t, nodes...)...)
	}
	if failed, denied := tries(slices.Concat(basic, more)); len(failed)+len(denied) > 0 {
		t.Fatalf("these fail: %v; denied are %q", failed, denied)
	}
	for i, right := range more {
		failed, denied := tries(slices.Concat(basic, slices.Delete(slices.Clone(more), i, i+1)))
		// COMMAND tells go-redis what a replica may be asked; without it go-redis asks the master.
		if len(denied) == 0 || len(failed) == 0 && right != "+command" {
			t.Errorf("%s: without it these fail: %v; denied are %q", right, failed, denied)
		}
	}
}

// A user of a sentinel that has the rights of the page, and no others.
func TestTheRightsOfThePageSufficeOnSentinels(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.StartSentinels(t, 2, "--notify-keyspace-events", "KEA")
	rights := rule(t, ruleOfSentinel)
	var nodes []*redis.Client
	for _, addr := range s.Addrs {
		node := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
		t.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	tries := func(rights []string, listens time.Duration) []string {
		redistest.Allow(t, "app", rights, nodes...)
		redistest.Denied(t, nodes...) // before
		opts := &redis.FailoverOptions{MasterName: s.MasterName, SentinelAddrs: s.Addrs,
			SentinelUsername: "app", SentinelPassword: "secret", DialerRetries: 1, MaxRetries: -1}
		for _, rdb := range []redis.UniversalClient{
			redis.NewFailoverClient(opts), redis.NewFailoverClusterClient(opts)} {
			err := rdb.Ping(t.Context()).Err()
			timer := time.NewTimer(listens)
			<-timer.C
			denied := redistest.Denied(t, nodes...)
			_ = rdb.Close()
			if err != nil || len(denied) > 0 {
				return append(denied, "")
			}
		}
		return nil
	}
	if denied := tries(rights, 0); len(denied) > 0 {
		t.Fatalf("denied are %q", denied)
	}
	for i, right := range rights {
		if i < 2 {
			continue // on, and the password
		}
		listens := time.Duration(0)
		if right == "+ping" {
			listens = 3500 * time.Millisecond // go-redis checks the connection every 3 s
		}
		if denied := tries(slices.Delete(slices.Clone(rights), i, i+1), listens); len(denied) == 0 {
			t.Errorf("%s: nothing is denied without it", right)
		}
	}
}

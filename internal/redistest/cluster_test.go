package redistest_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestStartCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithArgs("--notify-keyspace-events", "Ex"))
	if len(c.Addrs) != 3 || len(c.Servers) != 3 {
		t.Fatalf("%d nodes", len(c.Addrs))
	}
	client := c.Client(t, func(o *redis.ClusterOptions) { o.ClientName = "me" })
	for range 50 {
		redistest.NoError(t, client.Set(t.Context(), redistest.Name(t), "v", 0).Err())
	}
	for _, s := range c.Servers {
		if n := s.Admin().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("%s got no key", s.Addr)
		}
		const option = "notify-keyspace-events"
		if got := s.Admin().ConfigGet(t.Context(), option).Val(); got[option] != "xE" {
			t.Errorf("arguments were not passed on: %v", got)
		}
	}
}

func TestStartClusterWithReplicas(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(1))
	if len(c.Addrs) != 6 {
		t.Fatalf("%d nodes", len(c.Addrs))
	}
	for i, s := range c.Servers {
		want := "role:master"
		if i >= 3 {
			want = "master_link_status:up"
		}
		if info := s.Admin().Info(t.Context(), "replication").Val(); !strings.Contains(info, want) {
			t.Errorf("node %d lacks %s:\n%s", i, want, info)
		}
	}
}

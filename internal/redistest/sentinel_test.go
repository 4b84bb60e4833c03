package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	client := s.Client(t, func(o *redis.FailoverOptions) { o.ClientName = "me" })
	redistest.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())
	first, second := s.Master, s.Replica
	eventually(t, "replication", func() bool { return second.Admin().Exists(t.Context(), "k").Val() == 1 })

	s.Failover(t)
	if s.Master != second || s.Replica != first {
		t.Error("master and replica have not changed places")
	}
	eventually(t, "a write to the new master", func() bool {
		return client.Set(t.Context(), "k2", "v", 0).Err() == nil
	})
	if got := second.Admin().Exists(t.Context(), "k", "k2").Val(); got != 2 {
		t.Errorf("the new master has %d of 2 keys", got)
	}
}

package clusters_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// On a cluster WAIT goes to the node that carries the script out, also when that is
// another one than the client knew: after a failover, and while a slot moves.
func TestWaitGoesToTheNodeOfTheScript(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t, redistest.WithReplicas(1))
	rdb := cluster.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = 20 })
	c := NewClient(t, rdb, rratelimiter.WithMinReplicas(1, 3*time.Second))
	for _, typ := range []rratelimiter.RateType{Overall, PerClient} {
		for range 4 {
			name := redistest.Name(t)
			wholeLife(t, c.RateLimiter(name), typ, "{"+name+"}:new")
		}
	}
	confirmed := func(l *rratelimiter.RateLimiter, want int) {
		t.Helper()
		NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
		cluster.Agree(t) // a replica that has not heard of a move replies MOVED
		has := 0         // servers that have the records
		for _, s := range cluster.Servers {
			if copied(t, s, l.Name()) == int64(want) {
				has++
			}
		}
		if has != 2 {
			t.Errorf("%d servers have all %d records, want a master and its replica", has, want)
		}
	}
	l := c.RateLimiter(redistest.Name(t))
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	confirmed(l, 1)

	m := moveOn(t, cluster, l.Name())
	confirmed(l, 2)
	for _, key := range []string{l.Name(), "{" + l.Name() + "}:value", "{" + l.Name() + "}:permits"} {
		m.Key(key)
	}
	NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0))) // the former node replies ASK
	m.End()
	confirmed(l, 4) // and MOVED

	for _, s := range cluster.Servers[3:] {
		NoError(t, s.Admin().ClusterFailover(t.Context()).Err())
		Until(t, func() bool { return s.Admin().Do(t.Context(), "ROLE").Val().([]any)[0] == "master" })
	}
	cluster.Agree(t)
	for _, s := range cluster.Servers[:3] {
		(&followed{T: t}).follows(s)
	}
	confirmed(l, 5)

	lacking := NewClient(t, rdb, rratelimiter.WithMinReplicas(2, 10*time.Millisecond))
	f := &followed{T: t, l: l}
	f.refuses(ErrOf(lacking.RateLimiter(l.Name()).TryAcquire(t.Context(), 1, 0)), "1 of 2")
	Until(t, func() bool { r, err := l.Peek(t.Context()); return err == nil && r.Remaining == 5 })
}

package clusters_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A sentHook sees what a node was sent, alone or in a pipeline, with the replies.
type sentHook func(cmds ...redis.Cmder)

func (sentHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (see sentHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		see(cmd)
		return err
	}
}

func (see sentHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		see(cmds...)
		return err
	}
}

// A redirections counts the calls that the nodes of a cluster or a Ring have redirected or refused because
// their slot moves, and the nodes that were sent pipelines.
type redirections struct {
	all, together atomic.Int64 // together: in a pipeline
	nodes         sync.Map
}

func newRedirections(eachNode func(see func(node *redis.Client))) *redirections {
	r := &redirections{}
	eachNode(func(node *redis.Client) {
		node.AddHook(sentHook(func(cmds ...redis.Cmder) { r.note(node.Options().Addr, cmds) }))
	})
	return r
}

func (r *redirections) note(addr string, cmds []redis.Cmder) {
	merged := len(cmds) > 1
	if merged {
		r.nodes.Store(addr, true)
	}
	for _, cmd := range cmds {
		for _, word := range []string{"MOVED", "ASK", "TRYAGAIN"} {
			if !redis.HasErrorPrefix(cmd.Err(), word) {
				continue
			}
			if r.all.Add(1); merged {
				r.together.Add(1)
			}
		}
	}
}

// pipelinesTo returns to how many nodes pipelines were sent.
func (r *redirections) pipelinesTo() (n int) {
	r.nodes.Range(func(any, any) bool { n++; return true })
	return n
}

// users are limiters that many callers of one Client use at once, one permit a call.
type users struct {
	*testing.T
	limiters []*rratelimiter.RateLimiter
	granted  []atomic.Int64
}

const userRate = 1_000_000 // per hour: everything is granted

func newUsers(t *testing.T, c *rratelimiter.Client, names []string) *users {
	t.Helper()
	u := &users{T: t, granted: make([]atomic.Int64, len(names))}
	for _, name := range names {
		l := c.RateLimiter(name)
		NoError(t, l.SetRate(t.Context(), Overall, userRate, time.Hour))
		u.limiters = append(u.limiters, l)
	}
	return u
}

// come lets callers ask until the function that it returns is called.
func (u *users) come(callers int) (end func()) {
	var all sync.WaitGroup
	var ended atomic.Bool
	for range callers {
		all.Go(func() {
			for !ended.Load() {
				i := rand.IntN(len(u.limiters))
				switch err := Yes(u.limiters[i].TryAcquire(u.Context(), 1, 0)); {
				case err == nil:
					u.granted[i].Add(1)
				case !redis.IsTryAgainError(err): // from a move that takes longer than 3 s
					u.Error(err)
					return
				}
			}
		})
	}
	return func() {
		ended.Store(true)
		all.Wait()
	}
}

// agree expects that each granted permit is in a record, and that no other is.
func (u *users) agree(rdb redis.UniversalClient) {
	u.Helper()
	for i, l := range u.limiters {
		granted, out := u.granted[i].Load(), outOf(u.T, rdb, l.Name())
		left, err := l.AvailablePermits(u.Context())
		if err != nil || out != granted || left != userRate-granted {
			u.Errorf("%s: %d were granted, %d are out, %d left: %v", l.Name(), granted, out, left, err)
		}
	}
}

// Slots move while calls for many limiters share pipelines, which get redirections for some of their calls.
// No permit is lost, none is granted twice, and no caller gets an error, unless a move takes very long.
func TestCallsThatShareAPipelineSurviveMovingSlots(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t, func(o *redis.ClusterOptions) {
		o.MaxRedirects, o.MinRetryBackoff, o.MaxRetryBackoff = 60, time.Millisecond, 20*time.Millisecond
	})
	seen := newRedirections(rdb.OnNewNode)
	var names, tags []string
	for range 6 {
		tag := "{" + redistest.Name(t) + "}"
		tags = append(tags, tag)
		for i := range 8 {
			names = append(names, fmt.Sprint(tag, ":", i))
		}
	}
	u := newUsers(t, NewClient(t, rdb), names)
	end := u.come(48)
	defer end()
	for _, tag := range tags {
		m := moveOn(t, cluster, tag+":0")
		const some, all = 3, 1000 // keys: of a limiter that has keys on both nodes, the reply is TRYAGAIN
		for _, keys := range []int{some, all} {
			before := seen.all.Load()
			m.Keys(keys)
			Until(t, func() bool { return seen.all.Load() > before || t.Failed() })
		}
		m.End()
	}
	end()
	u.agree(rdb)
	if seen.together.Load() == 0 {
		t.Error("no call in a pipeline was redirected")
	}
}

// Calls for many limiters of a Ring share pipelines, those of each shard its own. Each is charged once.
func TestCallsThatShareAPipelineOfARing(t *testing.T) {
	addrs := map[string]string{}
	for i := range 3 {
		addrs[fmt.Sprint("shard", i)] = redistest.Start(t).Addr
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { _ = ring.Close() })
	seen := newRedirections(func(see func(node *redis.Client)) {
		NoError(t, ring.ForEachShard(t.Context(), func(_ context.Context, shard *redis.Client) error {
			see(shard)
			return nil
		}))
	})
	names := make([]string, 48)
	for i := range names {
		names[i] = redistest.Name(t)
	}
	u := newUsers(t, NewClient(t, ring), names)
	end := u.come(48)
	defer end()
	Until(t, func() bool { return seen.pipelinesTo() == len(addrs) || t.Failed() })
	end()
	u.agree(ring)
}

// If a pipeline gets nothing but redirections, each of its calls is sent alone, also that of its sender.
func TestCallsOfARedirectedPipelineAreSentAlone(t *testing.T) {
	rdb := redistest.StartCluster(t).Client(t)
	tag := "{" + redistest.Name(t) + "}"
	names := make([]string, 16)
	for i := range names {
		names[i] = fmt.Sprint(tag, ":", i)
	}
	var pipelines atomic.Int64
	// As nodes do while slots move faster than a client follows.
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds ...redis.Cmder) error {
		if len(cmds) > 1 {
			pipelines.Add(1)
			return RedisError("MOVED 1 127.0.0.1:1")
		}
		return nil
	}))
	u := newUsers(t, NewClient(t, rdb), names)
	end := u.come(48)
	Until(t, func() bool { return pipelines.Load() > 100 || t.Failed() })
	end()
	u.agree(rdb)
}

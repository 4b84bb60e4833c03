package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// terms are the limit of each contestant, or of each of its users.
type terms struct {
	permits  int64
	interval time.Duration
}

// ours returns a new limiter of this library with the limit of the scenario.
func (e *env) ours(ctx context.Context, mods ...func(*redis.Options)) *rratelimiter.RateLimiter {
	return e.limiterOf(ctx, e.client(e.rdb(mods...)))
}

// limiterOf returns a new limiter of a Client, whose rate is set in Redis. Where callers are refused, its
// only permit is taken.
func (e *env) limiterOf(ctx context.Context, c *rratelimiter.Client) *rratelimiter.RateLimiter {
	l := c.RateLimiter(redistest.Name(e))
	get(l.TrySetRate(ctx, rratelimiter.Overall, e.permits, e.interval))
	if e.refused {
		get(l.TryAcquire(ctx, 1, 0))
	}
	return l
}

// An acquirer is a RateLimiter or a Group.
type acquirer interface {
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
}

// acquires asks for a permit, and waits up to timeout for it.
func acquires(l acquirer, timeout time.Duration) ask {
	return func(ctx context.Context, _ string) (bool, error) { return l.TryAcquire(ctx, 1, timeout) }
}

func tryAcquire(ctx context.Context, e *env) ask { return acquires(e.ours(ctx), 0) }

// waits has a timeout that no wait exceeds.
func waits(ctx context.Context, e *env) ask { return acquires(e.ours(ctx), time.Minute) }

// dated asks with a context that has a deadline, which no call reaches. By default go-redis does not keep it.
func dated(keeps bool) func(context.Context, *env) ask {
	return func(ctx context.Context, e *env) ask {
		l := e.ours(ctx, func(o *redis.Options) { o.ContextTimeoutEnabled = keeps })
		return func(ctx context.Context, _ string) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return l.TryAcquire(ctx, 1, 0)
		}
	}
}

// leased takes permits ahead. Intervals below 100 ms are never leased: this one is a minute.
func leased(_ context.Context, e *env) ask {
	c := e.client(e.rdb(), rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second}))
	return acquires(c.RateLimiter(redistest.Name(e)).WithRate(1<<40, time.Minute), 0)
}

// allows asks a limiter for the numbers of a response as well, perhaps with refusals repeated from memory.
func allows(opts ...rratelimiter.Option) func(context.Context, *env) ask {
	return func(ctx context.Context, e *env) ask {
		l := e.limiterOf(ctx, e.client(e.rdb(), opts...))
		return func(ctx context.Context, _ string) (bool, error) {
			r, err := l.Allow(ctx, 1)
			return r.Allowed, err
		}
	}
}

// reserves reserves a permit, and settles it to none.
func reserves(ctx context.Context, e *env) ask {
	l := e.ours(ctx)
	return func(ctx context.Context, _ string) (bool, error) {
		r, err := l.Reserve(ctx, 1, 0)
		if r != nil {
			err = r.Cancel(ctx)
		}
		return r != nil, err
	}
}

// groupOf takes a permit of n limiters, or of none.
func groupOf(n int) func(context.Context, *env) ask {
	return func(ctx context.Context, e *env) ask {
		c := e.client(e.rdb())
		var all []*rratelimiter.RateLimiter
		for range n {
			all = append(all, e.limiterOf(ctx, c))
		}
		return acquires(c.All(all...), 0)
	}
}

// users is a limit for each user.
func users(_ context.Context, e *env) ask {
	return answers(e.client(e.rdb()).Keyed(e.name, e.permits, e.interval))
}

func answers[L limit.Limiter](l limit.Keyed[L]) ask {
	return func(ctx context.Context, user string) (bool, error) {
		r, err := l.For(user).Allow(ctx, 1)
		return r.Allowed, err
	}
}

// floor is the least that a limiter with a script can cost: a script that does nothing, sent by go-redis.
func floor(_ context.Context, e *env) ask {
	nothing, rdb := redis.NewScript("return 1"), e.rdb()
	return func(ctx context.Context, user string) (bool, error) {
		ok, err := nothing.Run(ctx, rdb, []string{user}).Bool()
		return ok && !e.refused, err
	}
}

// A sender is a client of go-redis, or its AutoPipeliner, which sends the commands of many callers together.
type sender interface {
	redis.Cmdable
	Watch(ctx context.Context, f func(*redis.Tx) error, keys ...string) error
}

func alone(e *env) sender    { return e.rdb() }
func together(e *env) sender { return get(e.rdb().AutoPipeline()) }

// redisRate may sleep and ask again, which is what users of redis_rate write to wait.
func redisRate(rdb func(*env) sender, sleeps bool) func(context.Context, *env) ask {
	return func(_ context.Context, e *env) ask {
		l, prefix := redis_rate.NewLimiter(rdb(e)), redistest.Name(e)
		rate := redis_rate.Limit{Rate: int(e.permits), Burst: int(e.permits), Period: e.interval}
		return func(ctx context.Context, user string) (bool, error) {
			for {
				r, err := l.Allow(ctx, prefix+user, rate)
				if err != nil || r.Allowed > 0 || !sleeps {
					return err == nil && r.Allowed > 0, err
				}
				time.Sleep(r.RetryAfter)
			}
		}
	}
}

// twice asks two limits in two calls: a permit of the first is lost if the second refuses.
func twice(ctx context.Context, e *env) ask {
	one, two := redisRate(alone, false)(ctx, e), redisRate(alone, false)(ctx, e)
	return func(ctx context.Context, user string) (bool, error) {
		if ok, err := one(ctx, user); err != nil || !ok {
			return ok, err
		}
		return two(ctx, user)
	}
}

func ululeLimiter(rdb func(*env) sender) func(context.Context, *env) ask {
	return func(_ context.Context, e *env) ask {
		store := get(ululeredis.NewStoreWithOptions(rdb(e), ulule.StoreOptions{Prefix: redistest.Name(e)}))
		l := ulule.New(store, ulule.Rate{Period: e.interval, Limit: e.permits})
		return func(ctx context.Context, user string) (bool, error) {
			c, err := l.Get(ctx, user)
			return err == nil && !c.Reached, err
		}
	}
}

// rueidisLimiter has a client of its own, which sends the calls of many callers in one pipeline.
func rueidisLimiter(_ context.Context, e *env) ask {
	var client rueidis.Client
	l := get(rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
			client, err = rueidis.NewClient(option)
			return client, err
		},
		ClientOption: rueidis.ClientOption{InitAddress: []string{e.server.Addr}, DisableCache: true},
		KeyPrefix:    redistest.Name(e), Limit: int(e.permits), Window: e.interval,
	}))
	e.Cleanup(client.Close)
	return func(ctx context.Context, user string) (bool, error) {
		r, err := l.Allow(ctx, user)
		return r.Allowed, err
	}
}

// redissonLimiter returns a limiter of a Redisson instance with its default pools, which all threads share.
// Its timeout is longer, so that many threads do not make it give up.
func (e *env) redissonLimiter(ctx context.Context) *javapeer.Limiter {
	peer, client := get(e.java(ctx)), redistest.Name(e)
	get(peer.Connect(ctx, client, e.server.Addr, javapeer.Timeout(time.Minute)))
	return peer.Limiter(client, e.ours(ctx).Name())
}

// redisson is a loop inside the JVM. The work of Redis during the warm-up cannot be separated, so all of it
// is divided by all script calls: Redisson makes one per acquire.
func redisson(ctx context.Context, e *env) turner {
	l := e.redissonLimiter(ctx)
	for _, threads := range []int{1, 64} { // a lone thread and many take other paths
		// 4 s: from then on the figures of a JVM do not improve any more.
		lasts := amount(e, 4*time.Second, 50*time.Millisecond)
		get(l.Loop(ctx, javapeer.LoopOptions{Threads: threads, Duration: lasts}))
	}
	return func(ctx context.Context, c crowd) (sample, error) {
		var got javapeer.LoopResult
		used, err := e.usage(ctx, func() (err error) {
			// Longer than for Go: starting many threads takes a while.
			o := javapeer.LoopOptions{Threads: c.callers, Warmup: 5 * e.warmup / 2, Duration: e.span}
			got, err = l.Loop(ctx, o)
			return err
		})
		err = e.expected((got.Granted == 0) == e.refused, err)
		s := used.by(max(1, used.calls))
		s.perSecond, s.p50, s.p99 = got.PerSecond, got.P50us, got.P99us
		return s, err
	}
}

// redissonWaits is threads that wait, which are measured after the warm-up.
func redissonWaits(ctx context.Context, e *env) turner {
	l := e.redissonLimiter(ctx)
	return func(ctx context.Context, c crowd) (s sample, err error) {
		var grants [][2]time.Time
		used, err := e.usage(ctx, func() (err error) {
			grants, err = l.Hammer(ctx, javapeer.HammerOptions{
				Threads: c.callers, Duration: e.warmup + e.span, Timeout: time.Minute,
			})
			return err
		})
		if err != nil || len(grants) == 0 {
			return s, fmt.Errorf("%d grants: %w", len(grants), err)
		}
		s = used.by(float64(len(grants)))
		var took []float64
		from := grants[0][0].Add(e.warmup)
		for _, g := range grants {
			if at := g[1].Sub(from); at >= 0 && at < e.span {
				took = append(took, float64(g[1].Sub(g[0]).Microseconds()))
			}
		}
		s.perSecond = float64(len(took)) / e.span.Seconds()
		s.p50, s.p99 = quantile(took, 0.50), quantile(took, 0.99)
		return s, nil
	}
}

package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	timerate "golang.org/x/time/rate"
)

// rivals are the limiters of other libraries, by what they do rather than by what they say: a "token bucket"
// that is full again at the end of each interval is a fixed window.
var rivals = []entrant{
	{algorithm: tokenBucket, name: "x/time/rate", lone: timeRate, keyed: timeRateMap},
	{algorithm: fixedWindow, name: "failsafe-go, bursty", lone: bursty},
	{algorithm: fixedWindow, name: "go-limiter", keyed: goLimiter},
	{algorithm: fixedWindow, name: "ulule/limiter", keyed: ululeMemory},
	{algorithm: leakyMeter, name: "throttled", keyed: throttledMemory},
	{algorithm: slidingCounter, name: "httprate", keyed: httprateMemory},
	{algorithm: leakyQueue, name: "failsafe-go, smooth", lone: smooth},
	{algorithm: leakyQueue, name: "uber-go/ratelimit", lone: uber},
	{algorithm: concurrent, name: "x/sync/semaphore", lone: weighted},
	{algorithm: concurrent, name: "failsafe-go, bulkhead", lone: newBulkhead},

	{algorithm: leakyMeter, name: "redis_rate", redis: true, keyed: redisRate},
	{algorithm: leakyMeter, name: "redis_rate, AutoPipeline", redis: true, piped: true,
		keyed: piped(redisRate)},
	{algorithm: fixedWindow, name: "ulule/limiter", redis: true, keyed: ululeRedis},
	{algorithm: leakyMeter, name: "throttled", redis: true, keyed: throttledRedis},
	{algorithm: fixedWindow, name: "rueidislimiter", redis: true, piped: true, keyed: newRueidis},
	// Its limiter holds a mutex while it asks Redis, one for all keys. It is measured without that.
	{algorithm: slidingCounter, name: "httprate-redis", redis: true, keyed: httprateRedis},
}

// once is a limiter without keys.
func once(try func() bool) limiter {
	return func(context.Context, string) (bool, error) { return try(), nil }
}

func newTimeRate(t terms) *timerate.Limiter {
	return timerate.NewLimiter(timerate.Limit(float64(t.permits)/t.window.Seconds()), int(t.permits))
}

func timeRate(e env) limiter { return once(newTimeRate(e.terms).Allow) }

// timeRateMap is what most people write for keys, and what its page of examples has.
func timeRateMap(e env) limiter {
	var mu sync.Mutex
	all := map[string]*timerate.Limiter{}
	return func(_ context.Context, key string) (bool, error) {
		mu.Lock()
		l := all[key]
		if l == nil {
			l = newTimeRate(e.terms)
			all[key] = l
		}
		mu.Unlock()
		return l.Allow(), nil
	}
}

func bursty(e env) limiter {
	l := ratelimiter.NewBursty[any](uint(e.permits), e.window)
	return once(l.TryAcquirePermit)
}

// smooth has a permit for each ns at most, and none at once: of two callers in the same ns one is refused,
// which counts all the same.
func smooth(env) limiter {
	l := ratelimiter.NewSmoothWithMaxRate[any](1)
	return once(func() bool {
		l.TryAcquirePermit()
		return true
	})
}

// uber only waits: with a permit for each ns it has nothing to wait for.
func uber(env) limiter {
	l := ratelimit.New(int(time.Second))
	return once(func() bool { return !l.Take().IsZero() })
}

func weighted(e env) limiter {
	l := semaphore.NewWeighted(e.permits)
	return once(func() bool { return lent(l.TryAcquire(1), func() { l.Release(1) }) })
}

func newBulkhead(e env) limiter {
	l := bulkhead.New[any](uint(min(e.permits, 1<<16))) // it makes a channel of so many places
	return once(func() bool { return lent(l.TryAcquirePermit(), l.ReleasePermit) })
}

// lent gives back at once what was granted.
func lent(ok bool, release func()) bool {
	if ok {
		release()
	}
	return ok
}

// goLimiter sweeps as often as it may: by default it does every six hours.
func goLimiter(e env) limiter {
	store := get(memorystore.New(&memorystore.Config{
		Tokens: uint64(e.permits), Interval: e.window, SweepInterval: e.window, SweepMinTTL: e.window,
	}))
	e.s.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}
}

func newUlule(store ulule.Store, t terms) limiter {
	l := ulule.New(store, ulule.Rate{Period: t.window, Limit: t.permits})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached, err
	}
}

func ululeMemory(e env) limiter {
	stores := ulule.StoreOptions{Prefix: ulule.DefaultPrefix, CleanUpInterval: e.window}
	return newUlule(ululememory.NewStoreWithOptions(stores), e.terms)
}

func ululeRedis(e env) limiter {
	return newUlule(get(ululeredis.NewStoreWithOptions(e.rdb, ulule.StoreOptions{Prefix: e.name})), e.terms)
}

// newThrottled may try as often as its callers collide: with ten attempts, which is its default, 64 callers
// of one key get errors.
func newThrottled(store throttled.GCRAStoreCtx, e env) limiter {
	l := get(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(e.permits), e.window), MaxBurst: int(e.permits) - 1,
	}))
	l.SetMaxCASAttemptsLimit(1_000_000)
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
}

func throttledMemory(e env) limiter { return newThrottled(get(memstore.NewCtx(0)), e) }

func throttledRedis(e env) limiter {
	store := get(goredisstore.NewCtx(e.rdb.(*redis.Client), e.name+":"))
	return newThrottled(store, e)
}

// newHttprate is its limiter as its middleware asks it: with headers to write to.
func newHttprate(e env, opts ...httprate.Option) limiter {
	l := httprate.NewRateLimiter(int(e.permits), e.window, opts...)
	bare, err := http.NewRequest(http.MethodGet, "/", http.NoBody)
	return func(_ context.Context, key string) (bool, error) {
		return !l.OnLimit(blank{http.Header{}}, bare, key), err // its errors are refusals
	}
}

func httprateMemory(e env) limiter { return newHttprate(e) }

// httprateCounter has its fallback to memory off: what it does then is not limited by Redis.
func httprateCounter(e env) httprate.LimitCounter {
	return httprateredis.NewCounter(&httprateredis.Config{
		Client: e.rdb.(*redis.Client), WindowLength: e.window, FallbackDisabled: true, PrefixKey: e.name,
	})
}

// httprateLocked is httprate as its users have it.
func httprateLocked(e env) limiter {
	return newHttprate(e, httprate.WithLimitCounter(httprateCounter(e)))
}

// httprateRedis does with the counter what httprate does, without its mutex.
func httprateRedis(e env) limiter {
	counter := httprateCounter(e)
	counter.Config(int(e.permits), e.window)
	return func(_ context.Context, key string) (bool, error) {
		now := time.Now().UTC()
		this := now.Truncate(e.window)
		count, before, err := counter.Get(key, this, this.Add(-e.window))
		if err != nil {
			return false, err
		}
		part := float64(e.window-now.Sub(this)) / float64(e.window)
		if float64(before)*part+float64(count)+1 > float64(e.permits) {
			return false, nil
		}
		return true, counter.IncrementBy(key, this, 1)
	}
}

func redisRate(e env) limiter {
	l := redis_rate.NewLimiter(e.rdb)
	rate := redis_rate.Limit{Rate: int(e.permits), Burst: int(e.permits), Period: e.window}
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, rate)
		return err == nil && r.Allowed > 0, err
	}
}

// newRueidis has a client of its own, to the same address.
func newRueidis(e env) limiter {
	var client rueidis.Client
	addr := e.rdb.(*redis.Client).Options().Addr
	l := get(rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
			client, err = rueidis.NewClient(option)
			return client, err
		},
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true},
		KeyPrefix:    e.name + ":count", Limit: int(e.permits), Window: e.window,
	}))
	e.s.Cleanup(client.Close)
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key)
		return r.Allowed, err
	}
}

// A blank is a ResponseWriter that costs nothing but its header.
type blank struct{ h http.Header }

// Header returns the header.
func (b blank) Header() http.Header { return b.h }

// Write drops the body.
func (blank) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader drops the status.
func (blank) WriteHeader(int) {}

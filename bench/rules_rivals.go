package main

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	timerate "golang.org/x/time/rate"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// countTells is what a count in a window says: what is left, and when the window ends.
const countTells = tellsMany | tellsLimit | tellsRemaining | tellsRetry | tellsReset

// judgedRivals are the limiters of others. An adapter passes on what its library says and
// adds nothing: n and keys as they are, and errors as they come.
var judgedRivals = []judged{
	{name: "x/time/rate", promise: limittest.TokenBucket,
		tells: tellsMany | tellsLimit | tellsRemaining | tellsRetry, lone: timeRateAdapter},
	{name: "failsafe-go, bursty", promise: limittest.FixedWindow, tells: 0, lone: burstyAdapter},
	{name: "go-limiter", promise: limittest.FixedWindow, tells: countTells &^ tellsMany, real: true,
		keyed: goLimiterAdapter},
	{name: "ulule/limiter", promise: limittest.FixedWindow, tells: countTells, keyed: ululeMemoryAdapter},
	{name: "throttled", promise: limittest.TokenBucket, tells: countTells, keyed: throttledMemoryAdapter},
	{name: "httprate", promise: limittest.FixedWindow, tells: countTells, keyed: httprateAdapter},
	{name: "redis_rate", promise: limittest.TokenBucket, redis: true,
		tells: countTells | tellsInterval | tellsContext, keyed: redisRateAdapter},
	{name: "ulule/limiter on Redis", promise: limittest.FixedWindow, redis: true,
		tells: countTells | tellsContext, keyed: ululeRedisAdapter},
	{name: "throttled on Redis", promise: limittest.TokenBucket, redis: true,
		tells: countTells | tellsContext, keyed: throttledRedisAdapter},
	{name: "rueidislimiter", promise: limittest.FixedWindow, redis: true,
		tells: countTells&^tellsLimit | tellsContext, keyed: rueidisAdapter},
	{name: "httprate-redis", promise: limittest.FixedWindow, redis: true, tells: countTells,
		keyed: httprateRedisAdapter},
}

// untilUnix returns the time until a second since 1970.
func untilUnix(second int64) time.Duration { return time.Until(time.Unix(second, 0)) }

// refused is d unless the permits were granted.
func refused(allowed bool, d time.Duration) time.Duration {
	if allowed {
		return 0
	}
	return d
}

// timeRateAdapter asks for the wait by a reservation that it cancels, as its page says.
func timeRateAdapter(of terms) limit.Limiter {
	l := timerate.NewLimiter(perSecondOf(of), int(of.permits))
	return limit.Func(func(_ context.Context, n int64) (limit.Result, error) {
		r := limit.Result{Allowed: l.AllowN(time.Now(), int(n)), Limit: int64(l.Burst())}
		r.Remaining = int64(l.Tokens())
		if !r.Allowed {
			later := l.ReserveN(time.Now(), int(n))
			r.RetryAfter = later.Delay()
			later.Cancel()
		}
		return r, nil
	})
}

// burstyAdapter can say no more than that.
func burstyAdapter(of terms) limit.Limiter {
	l := ratelimiter.NewBursty[any](uint(of.permits), of.window)
	return limit.Func(func(_ context.Context, n int64) (limit.Result, error) {
		return limit.Result{Allowed: l.TryAcquirePermits(uint(n))}, nil
	})
}

// goLimiterAdapter takes n permits by n calls.
func goLimiterAdapter(t *testing.T, _ *redis.Client, _ string, of terms) limit.Keyed {
	t.Helper()
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(of.permits), Interval: of.window})
	must(t, store, err)
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (r limit.Result, err error) {
		for range min(n, of.permits+1) {
			tokens, left, reset, ok, err := store.Take(ctx, key)
			if err != nil {
				return limit.Result{}, err
			}
			until := time.Until(time.Unix(0, int64(reset)))
			r = limit.Result{
				Allowed: ok, Limit: int64(tokens), Remaining: int64(left),
				RetryAfter: refused(ok, until), ResetAfter: until,
			}
			if !ok {
				break
			}
		}
		return r, nil
	})
}

func ululeAdapter(store limiter.Store, of terms) limit.Keyed {
	l := limiter.New(store, limiter.Rate{Period: of.window, Limit: of.permits})
	return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		c, err := l.Increment(ctx, key, n)
		until := untilUnix(c.Reset)
		return limit.Result{
			Allowed: err == nil && !c.Reached, Limit: c.Limit, Remaining: c.Remaining,
			RetryAfter: refused(!c.Reached, until), ResetAfter: until,
		}, err
	})
}

func ululeMemoryAdapter(_ *testing.T, _ *redis.Client, _ string, of terms) limit.Keyed {
	// Its cleaner would not end with the bubble.
	return ululeAdapter(ululememory.NewStoreWithOptions(limiter.StoreOptions{Prefix: "limiter"}), of)
}

func ululeRedisAdapter(t *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed {
	t.Helper()
	store, err := ululeredis.NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: name})
	return ululeAdapter(must(t, store, err), of)
}

func throttledAdapter(t *testing.T, store throttled.GCRAStoreCtx, of terms) limit.Keyed {
	t.Helper()
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(of.permits), of.window), MaxBurst: int(of.permits) - 1,
	})
	must(t, l, err)
	return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		limited, r, err := l.RateLimitCtx(ctx, key, int(n))
		return limit.Result{
			Allowed: err == nil && !limited, Limit: int64(r.Limit), Remaining: int64(r.Remaining),
			RetryAfter: max(0, r.RetryAfter), ResetAfter: r.ResetAfter,
		}, err
	})
}

func throttledMemoryAdapter(t *testing.T, _ *redis.Client, _ string, of terms) limit.Keyed {
	t.Helper()
	store, err := memstore.NewCtx(0)
	return throttledAdapter(t, must(t, store, err), of)
}

func throttledRedisAdapter(t *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed {
	t.Helper()
	store, err := goredisstore.NewCtx(rdb, name+":")
	return throttledAdapter(t, must(t, store, err), of)
}

// httprateOf reads the headers that a client gets.
func httprateOf(l *httprate.RateLimiter) limit.Keyed {
	return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		ctx = httprate.WithIncrement(ctx, int(n))
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
		if err != nil {
			return limit.Result{}, err
		}
		h := http.Header{}
		limited := l.OnLimit(blank{h}, r, key)
		number := func(name string) int64 {
			v, _ := strconv.ParseInt(h.Get(name), 10, 64)
			return v
		}
		return limit.Result{
			Allowed: !limited, Limit: number("X-RateLimit-Limit"), Remaining: number("X-RateLimit-Remaining"),
			RetryAfter: time.Duration(number("Retry-After")) * time.Second,
			ResetAfter: untilUnix(number("X-RateLimit-Reset")),
		}, nil
	})
}

func httprateAdapter(_ *testing.T, _ *redis.Client, _ string, of terms) limit.Keyed {
	return httprateOf(httprate.NewRateLimiter(int(of.permits), of.window))
}

func httprateRedisAdapter(_ *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed {
	counter := httprateredis.NewCounter(&httprateredis.Config{
		Client: rdb, WindowLength: of.window, FallbackDisabled: true, PrefixKey: name,
	})
	with := httprate.WithLimitCounter(counter)
	return httprateOf(httprate.NewRateLimiter(int(of.permits), of.window, with))
}

// redisRateAdapter has to put the name of the limiter into the key.
func redisRateAdapter(_ *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed {
	l := redis_rate.NewLimiter(rdb)
	rate := redis_rate.Limit{Rate: int(of.permits), Burst: int(of.permits), Period: of.window}
	return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		if key != "" {
			key = name + ":" + key
		}
		r, err := l.AllowN(ctx, key, rate, int(n))
		if err != nil {
			return limit.Result{}, err
		}
		return limit.Result{
			Allowed: r.Allowed > 0, Limit: int64(r.Limit.Burst), Interval: r.Limit.Period,
			Remaining: int64(r.Remaining), RetryAfter: max(0, r.RetryAfter), ResetAfter: r.ResetAfter,
		}, nil
	})
}

func rueidisAdapter(t *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed {
	t.Helper()
	var client rueidis.Client
	l, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
			client, err = rueidis.NewClient(option)
			return client, err
		},
		ClientOption: rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}, DisableCache: true},
		KeyPrefix:    name, Limit: int(of.permits), Window: of.window,
	})
	must(t, l, err)
	t.Cleanup(client.Close)
	return limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		r, err := l.AllowN(ctx, key, n)
		until := time.Until(time.UnixMilli(r.ResetAtMs))
		if err != nil {
			return limit.Result{}, err
		}
		return limit.Result{
			Allowed: r.Allowed, Remaining: r.Remaining, RetryAfter: refused(r.Allowed, until), ResetAfter: until,
		}, nil
	})
}

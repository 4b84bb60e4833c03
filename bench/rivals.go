package main

import (
	"context"
	"net/http"
	"strconv"
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

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// countTells is what a count in a window says: what is left, and when the window ends.
const countTells = tellsMany | tellsLimit | tellsRemaining | tellsRetry | tellsReset

const (
	windowed = limittest.FixedWindow
	bucketed = limittest.TokenBucket
)

// rivals are the limiters of other libraries, by what they do rather than by what they say: a "token bucket"
// that is full again at the end of each interval is a fixed window. They pass on the numbers and errors of
// their library, and add none: n and keys stay as they are.
var rivals = []entrant{
	{algorithm: tokenBucket, name: "x/time/rate", judged: true, promise: bucketed,
		tells: tellsMany | tellsLimit | tellsRemaining | tellsRetry, lone: timeRate, keyed: timeRateMap},
	{algorithm: fixedWindow, name: "failsafe-go, bursty", judged: true, promise: windowed, lone: bursty},
	{algorithm: fixedWindow, name: "go-limiter", judged: true, promise: windowed,
		tells: countTells &^ tellsMany, real: true, keyed: goLimiter},
	{algorithm: fixedWindow, name: "ulule/limiter", judged: true, promise: windowed, tells: countTells,
		keyed: ululeMemory},
	{algorithm: leakyMeter, name: "throttled", judged: true, promise: bucketed, tells: countTells,
		keyed: throttledMemory},
	{algorithm: slidingCounter, name: "httprate", judged: true, promise: windowed, tells: countTells,
		keyed: httprateMemory},
	{algorithm: leakyQueue, name: "failsafe-go, smooth", lone: smooth},
	{algorithm: leakyQueue, name: "uber-go/ratelimit", lone: uber},
	{algorithm: concurrent, name: "x/sync/semaphore", lone: weighted},
	{algorithm: concurrent, name: "failsafe-go, bulkhead", lone: newBulkhead},

	{algorithm: leakyMeter, name: "redis_rate", judged: true, redis: true, promise: bucketed,
		tells: countTells | tellsInterval | tellsContext, keyed: redisRate},
	{algorithm: leakyMeter, name: "redis_rate, AutoPipeline", redis: true, piped: true,
		keyed: piped(redisRate)},
	{algorithm: fixedWindow, name: "ulule/limiter", rules: "ulule/limiter on Redis", judged: true,
		redis: true, promise: windowed, tells: countTells | tellsContext, keyed: ululeRedis},
	{algorithm: leakyMeter, name: "throttled", rules: "throttled on Redis", judged: true, redis: true,
		promise: bucketed, tells: countTells | tellsContext, keyed: throttledRedis},
	{algorithm: fixedWindow, name: "rueidislimiter", judged: true, redis: true, piped: true,
		promise: windowed, tells: countTells&^tellsLimit | tellsContext, keyed: newRueidis},
	// Its limiter holds a mutex while it asks Redis, one for all keys. It is measured without that, and
	// checked as its users have it.
	{algorithm: slidingCounter, name: "httprate-redis", judged: true, redis: true, promise: windowed,
		tells: countTells, keyed: httprateRedis},
}

func until(second int64) time.Duration { return time.Until(time.Unix(second, 0)) }

// refused is d unless the permits were granted.
func refused(allowed bool, d time.Duration) time.Duration {
	if allowed {
		return 0
	}
	return d
}

// once is a limiter without keys that can say no more than that.
func once(try func(n int64) bool) limiter {
	return limiter{
		func(context.Context, string) (bool, error) { return try(1), nil },
		limit.KeyedFunc(func(_ context.Context, _ string, n int64) (limit.Result, error) {
			return limit.Result{Allowed: try(n)}, nil
		}),
	}
}

func newTimeRate(t terms) *timerate.Limiter {
	return timerate.NewLimiter(timerate.Limit(float64(t.permits)/t.window.Seconds()), int(t.permits))
}

// timeRate asks for the wait by a reservation that it cancels, as its page says.
func timeRate(e env) limiter {
	l := newTimeRate(e.terms)
	tell := func(_ context.Context, _ string, n int64) (limit.Result, error) {
		r := limit.Result{Allowed: l.AllowN(time.Now(), int(n)), Limit: int64(l.Burst())}
		r.Remaining = int64(l.Tokens())
		if !r.Allowed {
			later := l.ReserveN(time.Now(), int(n))
			r.RetryAfter = later.Delay()
			later.Cancel()
		}
		return r, nil
	}
	one := func(context.Context, string) (bool, error) { return l.Allow(), nil }
	return limiter{one, limit.KeyedFunc(tell)}
}

// timeRateMap is what most people write for keys, and what its page of examples has.
func timeRateMap(e env) limiter {
	var mu sync.Mutex
	all := map[string]*timerate.Limiter{}
	return limiter{one: func(_ context.Context, key string) (bool, error) {
		mu.Lock()
		l := all[key]
		if l == nil {
			l = newTimeRate(e.terms)
			all[key] = l
		}
		mu.Unlock()
		return l.Allow(), nil
	}}
}

func bursty(e env) limiter {
	l := ratelimiter.NewBursty[any](uint(e.permits), e.window)
	return once(func(n int64) bool { return l.TryAcquirePermits(uint(n)) })
}

// smooth has a permit for each ns at most, and none at once: of two callers in the same ns one is refused,
// which counts all the same.
func smooth(env) limiter {
	l := ratelimiter.NewSmoothWithMaxRate[any](1)
	return once(func(int64) bool {
		l.TryAcquirePermit()
		return true
	})
}

// uber only waits: with a permit for each ns it has nothing to wait for.
func uber(env) limiter {
	l := ratelimit.New(int(time.Second))
	return once(func(int64) bool { return !l.Take().IsZero() })
}

func weighted(e env) limiter {
	l := semaphore.NewWeighted(e.permits)
	return once(func(n int64) bool { return lent(l.TryAcquire(n), func() { l.Release(n) }) })
}

func newBulkhead(e env) limiter {
	l := bulkhead.New[any](uint(min(e.permits, 1<<16))) // it makes a channel of so many places
	return once(func(int64) bool { return lent(l.TryAcquirePermit(), l.ReleasePermit) })
}

// lent gives back at once what was granted.
func lent(ok bool, release func()) bool {
	if ok {
		release()
	}
	return ok
}

// goLimiter sweeps as often as it may: by default it does every six hours. It takes n permits by n calls.
func goLimiter(e env) limiter {
	config := &memorystore.Config{Tokens: uint64(e.permits), Interval: e.window}
	if e.measured() {
		config.SweepInterval, config.SweepMinTTL = e.window, e.window
	}
	store := get(memorystore.New(config))
	e.s.Cleanup(func() { _ = store.Close(context.Background()) })
	one := func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}
	tell := func(ctx context.Context, key string, n int64) (r limit.Result, err error) {
		r.Allowed = true
		for i := int64(0); i < min(n, e.permits+1) && r.Allowed && err == nil; i++ {
			var tokens, left, reset uint64
			tokens, left, reset, r.Allowed, err = store.Take(ctx, key)
			later := time.Until(time.Unix(0, int64(reset)))
			r.Limit, r.Remaining, r.ResetAfter = int64(tokens), int64(left), later
			r.RetryAfter = refused(r.Allowed, later)
		}
		r.Allowed = r.Allowed && n > 0
		return r, err
	}
	return limiter{one, limit.KeyedFunc(tell)}
}

func newUlule(store ulule.Store, t terms) limiter {
	l := ulule.New(store, ulule.Rate{Period: t.window, Limit: t.permits})
	one := func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached, err
	}
	return limiter{one, limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		c, err := l.Increment(ctx, key, n)
		return limit.Result{
			Allowed: err == nil && !c.Reached, Limit: c.Limit, Remaining: c.Remaining,
			RetryAfter: refused(!c.Reached, until(c.Reset)), ResetAfter: until(c.Reset),
		}, err
	})}
}

func ululeMemory(e env) limiter {
	stores := ulule.StoreOptions{Prefix: ulule.DefaultPrefix}
	if e.measured() { // its cleaner would not end with the bubble of a test
		stores.CleanUpInterval = e.window
	}
	return newUlule(ululememory.NewStoreWithOptions(stores), e.terms)
}

func ululeRedis(e env) limiter {
	return newUlule(get(ululeredis.NewStoreWithOptions(e.rdb, ulule.StoreOptions{Prefix: e.name})), e.terms)
}

// newThrottled may try as often as its callers collide where speed is measured: with ten attempts, which is
// its default, 64 callers of one key get errors.
func newThrottled(store throttled.GCRAStoreCtx, e env) limiter {
	l := get(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(e.permits), e.window), MaxBurst: int(e.permits) - 1,
	}))
	if e.measured() {
		l.SetMaxCASAttemptsLimit(1_000_000)
	}
	one := func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
	return limiter{one, limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		limited, r, err := l.RateLimitCtx(ctx, key, int(n))
		return limit.Result{
			Allowed: err == nil && !limited, Limit: int64(r.Limit), Remaining: int64(r.Remaining),
			RetryAfter: max(0, r.RetryAfter), ResetAfter: r.ResetAfter,
		}, err
	})}
}

func throttledMemory(e env) limiter {
	store := get(memstore.NewCtx(0))
	return newThrottled(store, e)
}

func throttledRedis(e env) limiter {
	store := get(goredisstore.NewCtx(e.rdb.(*redis.Client), e.name+":"))
	return newThrottled(store, e)
}

// newHttprate is its limiter as its middleware asks it: with headers to write to. A client
// gets its numbers in the headers.
func newHttprate(l *httprate.RateLimiter) limiter {
	bare, err := http.NewRequest(http.MethodGet, "/", http.NoBody)
	one := func(_ context.Context, key string) (bool, error) {
		return !l.OnLimit(blank{http.Header{}}, bare, key), err // its errors are refusals
	}
	return limiter{one, limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		h := http.Header{}
		limited := l.OnLimit(blank{h}, bare.WithContext(httprate.WithIncrement(ctx, int(n))), key)
		number := func(name string) int64 {
			v, _ := strconv.ParseInt(h.Get(name), 10, 64)
			return v
		}
		return limit.Result{
			Allowed: !limited, Limit: number("X-RateLimit-Limit"), Remaining: number("X-RateLimit-Remaining"),
			RetryAfter: time.Duration(number("Retry-After")) * time.Second,
			ResetAfter: until(number("X-RateLimit-Reset")),
		}, err
	})}
}

func httprateMemory(e env) limiter {
	return newHttprate(httprate.NewRateLimiter(int(e.permits), e.window))
}

// httprateLocked is httprate as its users have it. Its fallback to memory is off: what it does then is not
// limited by Redis.
func httprateLocked(e env) limiter {
	counter := httprateredis.NewCounter(&httprateredis.Config{
		Client: e.rdb.(*redis.Client), WindowLength: e.window, FallbackDisabled: true, PrefixKey: e.name,
	})
	with := httprate.WithLimitCounter(counter)
	return newHttprate(httprate.NewRateLimiter(int(e.permits), e.window, with))
}

// httprateRedis does with the counter what httprate does, without its mutex, and tells what the limiter with
// it says.
func httprateRedis(e env) limiter {
	counter := httprateredis.NewCounter(&httprateredis.Config{
		Client: e.rdb.(*redis.Client), WindowLength: e.window, FallbackDisabled: true, PrefixKey: e.name,
	})
	counter.Config(int(e.permits), e.window)
	l := httprateLocked(e)
	l.one = func(_ context.Context, key string) (bool, error) {
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
	return l
}

// redisRate has to put the name of the limiter into the key.
func redisRate(e env) limiter {
	l := redis_rate.NewLimiter(e.rdb)
	rate := redis_rate.Limit{Rate: int(e.permits), Burst: int(e.permits), Period: e.window}
	one := func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, rate)
		return err == nil && r.Allowed > 0, err
	}
	return limiter{one, limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		if key != "" {
			key = e.name + ":" + key
		}
		r, err := l.AllowN(ctx, key, rate, int(n))
		if err != nil {
			return limit.Result{}, err
		}
		return limit.Result{
			Allowed: r.Allowed > 0, Limit: int64(r.Limit.Burst), Interval: r.Limit.Period,
			Remaining: int64(r.Remaining), RetryAfter: max(0, r.RetryAfter), ResetAfter: r.ResetAfter,
		}, nil
	})}
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
	one := func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key)
		return r.Allowed, err
	}
	return limiter{one, limit.KeyedFunc(func(ctx context.Context, key string, n int64) (limit.Result, error) {
		r, err := l.AllowN(ctx, key, n)
		if err != nil {
			return limit.Result{}, err
		}
		later := time.Until(time.UnixMilli(r.ResetAtMs))
		return limit.Result{
			Allowed: r.Allowed, Remaining: r.Remaining,
			RetryAfter: refused(r.Allowed, later), ResetAfter: later,
		}, nil
	})}
}

// A blank is a ResponseWriter that costs nothing but its header.
type blank struct{ h http.Header }

// Header returns the header.
func (b blank) Header() http.Header { return b.h }

// Write drops the body.
func (blank) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader drops the status.
func (blank) WriteHeader(int) {}

package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	timerate "golang.org/x/time/rate"
)

// A memoryEntrant is a limiter in memory, of this library or of another.
type memoryEntrant struct {
	algorithm, name string
	lone            func(s *scope, t terms) (try, error)    // nil: by a key
	keyed           func(s *scope, t terms) (keyTry, error) // nil: it has no keys
}

// oursName is the name of this library in tables.
const oursName = "this library"

// memoryEntrants are all, each of ours before its rivals.
func memoryEntrants() (all []memoryEntrant) {
	for _, n := range natives {
		all = append(all, memoryEntrant{n.algorithm, oursName, n.lone, n.keyed})
		for _, r := range memoryRivals {
			if r.algorithm == n.algorithm {
				all = append(all, r)
			}
		}
	}
	return all
}

// memoryRivals are the others, by what they do rather than by what they say: a "token
// bucket" that is full again at the end of each interval is a fixed window.
var memoryRivals = []memoryEntrant{
	{fixedWindow, "ulule/limiter", nil, newUluleMemory},
	{fixedWindow, "go-limiter", nil, newGoLimiter},
	{fixedWindow, "failsafe-go, bursty", newBursty, nil},
	{slidingCounter, "httprate", nil, newHttprate},
	{leakyMeter, "throttled", nil, newThrottledMemory},
	{leakyQueue, "failsafe-go, smooth", newSmooth, nil},
	{leakyQueue, "uber-go/ratelimit", newUber, nil},
	{tokenBucket, "x/time/rate", newTimeRate, newTimeRateMap},
	{concurrent, "x/sync/semaphore", newSemaphore, nil},
	{concurrent, "failsafe-go, bulkhead", newBulkhead, nil},
}

func newUluleMemory(s *scope, t terms) (keyTry, error) {
	stores := limiter.StoreOptions{Prefix: limiter.DefaultPrefix, CleanUpInterval: t.window}
	store := ululememory.NewStoreWithOptions(stores)
	s.Cleanup(func() { _ = store }) // its cleaner ends when it is garbage
	l := limiter.New(store, limiter.Rate{Period: t.window, Limit: t.permits})
	return func(key string) (bool, error) {
		c, err := l.Get(context.Background(), key)
		return !c.Reached, err
	}, nil
}

// newGoLimiter sweeps as often as it may: by default it does every six hours.
func newGoLimiter(s *scope, t terms) (keyTry, error) {
	store, err := memorystore.New(&memorystore.Config{
		Tokens: uint64(t.permits), Interval: t.window, SweepInterval: t.window, SweepMinTTL: t.window,
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(key string) (bool, error) {
		_, _, _, ok, err := store.Take(context.Background(), key)
		return ok, err
	}, nil
}

func newBursty(_ *scope, t terms) (try, error) {
	l := ratelimiter.NewBursty[any](uint(t.permits), t.window)
	return func() (bool, error) { return l.TryAcquirePermit(), nil }, nil
}

// newSmooth has a permit for each ns at most, and none at once: of two callers in the
// same ns one is refused, which counts all the same.
func newSmooth(*scope, terms) (try, error) {
	l := ratelimiter.NewSmoothWithMaxRate[any](1)
	return func() (bool, error) {
		l.TryAcquirePermit()
		return true, nil
	}, nil
}

// newHttprate is its limiter as its middleware asks it: with headers to write to.
func newHttprate(_ *scope, t terms) (keyTry, error) {
	l := httprate.NewRateLimiter(int(t.permits), t.window)
	r, err := http.NewRequest(http.MethodGet, "/", http.NoBody)
	return func(key string) (bool, error) { return !l.OnLimit(blank{http.Header{}}, r, key), nil }, err
}

func newThrottledMemory(_ *scope, t terms) (keyTry, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	l, err := newThrottled(store, t)
	return func(key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(context.Background(), key, 1)
		return !limited, err
	}, err
}

// newThrottled may try as often as its callers collide: with ten attempts, which is its
// default, 64 callers of one key get errors.
func newThrottled(store throttled.GCRAStoreCtx, t terms) (*throttled.GCRARateLimiterCtx, error) {
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(t.permits), t.window), MaxBurst: int(t.permits) - 1,
	})
	if err != nil {
		return nil, err
	}
	l.SetMaxCASAttemptsLimit(1_000_000)
	return l, nil
}

// newUber only waits: with a permit for each ns it has nothing to wait for.
func newUber(*scope, terms) (try, error) {
	l := ratelimit.New(int(time.Second))
	return func() (bool, error) { return !l.Take().IsZero(), nil }, nil
}

func perSecondOf(t terms) timerate.Limit {
	return timerate.Limit(float64(t.permits) / t.window.Seconds())
}

func newTimeRate(_ *scope, t terms) (try, error) {
	l := timerate.NewLimiter(perSecondOf(t), int(t.permits))
	return func() (bool, error) { return l.Allow(), nil }, nil
}

// newTimeRateMap is what most people write for keys, and what its page of examples has.
func newTimeRateMap(_ *scope, t terms) (keyTry, error) {
	var mu sync.Mutex
	all := map[string]*timerate.Limiter{}
	return func(key string) (bool, error) {
		mu.Lock()
		l := all[key]
		if l == nil {
			l = timerate.NewLimiter(perSecondOf(t), int(t.permits))
			all[key] = l
		}
		mu.Unlock()
		return l.Allow(), nil
	}, nil
}

func newSemaphore(_ *scope, t terms) (try, error) {
	l := semaphore.NewWeighted(t.permits)
	return func() (bool, error) {
		ok := l.TryAcquire(1)
		if ok {
			l.Release(1)
		}
		return ok, nil
	}, nil
}

func newBulkhead(_ *scope, t terms) (try, error) {
	// It makes a channel of so many places.
	l := bulkhead.New[any](uint(min(t.permits, 1<<16)))
	return func() (bool, error) {
		ok := l.TryAcquirePermit()
		if ok {
			l.ReleasePermit()
		}
		return ok, nil
	}, nil
}

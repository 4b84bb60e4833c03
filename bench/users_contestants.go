package main

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// The contestants with a limit for each user, in the order of the tables.
const (
	userOurs    = iota // Keyed.Allow
	userRate           // redis_rate
	userUlule          // ulule/limiter with its store for Redis
	userCounter        // the counter of httprate-redis alone
	userLocked         // the same by the limiter of httprate, as everybody has it
	userContestants
)

// userLabels are their names on the page.
var userLabels = [userContestants]string{
	userOurs: "this library", userRate: "redis_rate", userUlule: "ulule/limiter",
	userCounter: "httprate-redis, its counter alone", userLocked: "httprate-redis",
}

// A keyedAsk asks for one permit of a user, and reports whether it was granted.
type keyedAsk func(ctx context.Context, user string) (bool, error)

// A userMaker makes the ask of a contestant: each user has so many permits in a
// window.
type userMaker func(s *scope, rdb *redis.Client, permits int64, window time.Duration) (keyedAsk, error)

// userMakers are those of all contestants.
var userMakers = [userContestants]userMaker{
	userOurs: newUserOurs, userRate: newUserRate, userUlule: newUserUlule,
	userCounter: newUserCounter, userLocked: newUserLocked,
}

// newUserOurs is this library.
func newUserOurs(s *scope, rdb *redis.Client, permits int64, window time.Duration) (keyedAsk, error) {
	t := s.client(rdb).Keyed("bench", permits, window)
	return func(ctx context.Context, user string) (bool, error) {
		r, err := t.Allow(ctx, user, 1)
		return r.Allowed, err
	}, nil
}

// newUserRate is redis_rate.
func newUserRate(_ *scope, rdb *redis.Client, permits int64, window time.Duration) (keyedAsk, error) {
	return rateBy(rdb, permits, window)
}

// rateBy is redis_rate with any client.
func rateBy(rdb redis.UniversalClient, permits int64, window time.Duration) (keyedAsk, error) {
	l := redis_rate.NewLimiter(rdb)
	limit := redis_rate.Limit{Rate: int(permits), Burst: int(permits), Period: window}
	return func(ctx context.Context, user string) (bool, error) {
		r, err := l.Allow(ctx, user, limit)
		return err == nil && r.Allowed > 0, err
	}, nil
}

// newUserUlule is ulule/limiter, a count per window.
func newUserUlule(_ *scope, rdb *redis.Client, permits int64, window time.Duration) (keyedAsk, error) {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return nil, err
	}
	l := limiter.New(store, limiter.Rate{Period: window, Limit: permits})
	return func(ctx context.Context, user string) (bool, error) {
		c, err := l.Get(ctx, user)
		return err == nil && !c.Reached, err
	}, nil
}

// newCounter is the counter of httprate-redis over the pool that all others have.
// Its fallback to memory is off: what it does then is not limited by Redis.
func newCounter(rdb *redis.Client, window time.Duration) httprate.LimitCounter {
	return httprateredis.NewCounter(&httprateredis.Config{
		Client: rdb, WindowLength: window, FallbackDisabled: true,
	})
}

// newUserCounter does with the counter what httprate does, without its mutex.
func newUserCounter(_ *scope, rdb *redis.Client, permits int64, window time.Duration) (keyedAsk, error) {
	counter := newCounter(rdb, window)
	counter.Config(int(permits), window)
	return func(_ context.Context, user string) (bool, error) {
		now := time.Now().UTC()
		this := now.Truncate(window)
		count, before, err := counter.Get(user, this, this.Add(-window))
		if err != nil {
			return false, err
		}
		part := float64(window-now.Sub(this)) / float64(window)
		if float64(before)*part+float64(count)+1 > float64(permits) {
			return false, nil
		}
		return true, counter.IncrementBy(user, this, 1)
	}, nil
}

// newUserLocked is httprate as its users have it: the limiter holds a mutex while
// it asks Redis, one for all users.
func newUserLocked(_ *scope, rdb *redis.Client, permits int64, window time.Duration) (keyedAsk, error) {
	l := httprate.NewRateLimiter(int(permits), window, httprate.WithLimitCounter(newCounter(rdb, window)))
	r, err := http.NewRequest(http.MethodGet, "/", http.NoBody)
	return func(_ context.Context, user string) (bool, error) {
		// An error counts as a refusal, which ends the run.
		return !l.OnLimit(blank{http.Header{}}, r, user), nil
	}, err
}

// A blank is a ResponseWriter that costs nothing but its header.
type blank struct{ h http.Header }

// Header returns the header.
func (b blank) Header() http.Header { return b.h }

// Write drops the body.
func (blank) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader drops the status.
func (blank) WriteHeader(int) {}

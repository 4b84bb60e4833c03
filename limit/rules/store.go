package rules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Store keeps limits: InMemory or OnRedis.
type Store interface {
	// limiter returns the limiters of one limit.
	limiter(d definition) (limiters, error)

	// together returns limiters of several limits that decide in one call, or nil if the
	// Store cannot make them.
	together(d []definition) limiters
}

// limiters take n permits of the limit of a key, if they are there. Cancel of the Reservation gives them
// back. The Reservation is nil if the permits are spent or refused.
type limiters func(
	ctx context.Context, key string, n int64, p purpose,
) (*limit.Reservation, limit.Result, error)

// A purpose says what becomes of permits.
type purpose int

const (
	spent    purpose = iota // they stay taken
	lent                    // they may go back, at once or when the call ends
	estimate                // of a cost that is known later
)

// A limiter is a limiter of a package under limit/.
type limiter interface {
	limit.Limiter
	TryReserve(ctx context.Context, n int64) (*limit.Reservation, limit.Result, error)
}

// A keyed is a limiter with a limit for each key.
type keyed[L limiter] interface {
	limiter
	limit.Keyed[L]
}

func limitersOf[L keyed[L]](all L, err error) (limiters, error) {
	return func(
		ctx context.Context, key string, n int64, p purpose,
	) (*limit.Reservation, limit.Result, error) {
		if p == spent {
			r, err := all.For(key).Allow(ctx, n)
			return nil, r, err
		}
		return all.For(key).TryReserve(ctx, n)
	}, err
}

// InMemory is a Store in this process. Its rratelimiter is slidingwindow.Log, which decides as rratelimiter
// does on Redis.
func InMemory(opts ...limit.Option) Store { return memory{opts} }

type memory struct{ opts []limit.Option }

func (m memory) limiter(d definition) (limiters, error) {
	return algorithms[d.algorithm].inMemory(d.numbers, m.opts...)
}

func (memory) together([]definition) limiters { return nil }

// OnRedis is a Store shared by all that use its name, of 1 to 200 bytes without braces. The limit "day" of
// the rule "search" has the name NAME:search:day, or NAME:search if it is the only limit and has no name.
// client keeps the limits of rratelimiter, with its options: each is a Keyed with that name, so that Java
// finds it. rdb keeps all others; with client.Redis() they fall back as well. If an argument is nil or the
// name is unusable, New returns a limit.ErrInvalidArgument.
func OnRedis(client *rratelimiter.Client, rdb redis.UniversalClient, name string) Store {
	return &onRedis{client, rdb, name}
}

type onRedis struct {
	client *rratelimiter.Client
	rdb    redis.UniversalClient
	name   string
}

// mostName bounds the name of a Store, in bytes.
const mostName = 200

func (s *onRedis) check() error {
	switch {
	case s.client == nil || redisx.IsNil(s.rdb):
		return fmt.Errorf("%w: client or rdb is nil", limit.ErrInvalidArgument)
	case s.name == "" || len(s.name) > mostName || strings.ContainsAny(s.name, "{}"):
		return fmt.Errorf("%w: the name of a Store is %.60q, must have 1 to %d bytes without braces",
			limit.ErrInvalidArgument, s.name, mostName)
	}
	return nil
}

func (s *onRedis) limiter(d definition) (limiters, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if d.algorithm == redisson {
		t := s.keyed(d)
		return keyeds{s.client, []*rratelimiter.Keyed{t}}.take, t.Validate()
	}
	return algorithms[d.algorithm].onRedis(d.numbers, s.rdb, s.name+":"+d.key)
}

// keyed returns the limiters of a limit. Their acquires replace the rate that the rules had before a change.
func (s *onRedis) keyed(d definition) *rratelimiter.Keyed {
	return s.client.Keyed(s.name+":"+d.key, d.rate, d.per)
}

// mostTogether is the most limiters of a Group.
const mostTogether = 4

// together makes limits of rratelimiter decide in one script call. They have one key, and so one hash tag
// and one slot of a cluster.
func (s *onRedis) together(all []definition) limiters {
	if s.check() != nil || len(all) < 2 || len(all) > mostTogether {
		return nil
	}
	t := keyeds{client: s.client}
	for _, d := range all {
		if d.algorithm != redisson {
			return nil
		}
		t.all = append(t.all, s.keyed(d))
	}
	return t.take
}

// keyeds are limits of rratelimiter whose limiters of a key decide together.
type keyeds struct {
	client *rratelimiter.Client
	all    []*rratelimiter.Keyed
}

// take lends permits by Allow and Release, unless they have come back with time: unlike a reservation, Allow
// takes permits ahead and merges records, as the options of the Client say.
func (t keyeds) take(
	ctx context.Context, key string, n int64, p purpose,
) (*limit.Reservation, limit.Result, error) {
	l := t.of(key)
	if p == estimate {
		return l.TryReserve(ctx, n)
	}
	start := time.Now()
	r, err := l.Allow(ctx, n)
	if p == spent || !r.Allowed {
		return nil, r, err
	}
	return limit.NewReservation(nil, func(ctx context.Context, _ []int64) error {
		if time.Since(start) >= r.ResetAfter {
			return nil
		}
		return l.Release(ctx, n)
	}), r, nil
}

// A lender is the limiters of a key, which decide together.
type lender interface {
	limit.Reserver
	limit.Releaser
}

func (t keyeds) of(key string) lender {
	if len(t.all) == 1 {
		return t.all[0].For(key)
	}
	limiters := make([]*rratelimiter.RateLimiter, len(t.all))
	for i, keyed := range t.all {
		limiters[i] = keyed.For(key)
	}
	return t.client.All(limiters...)
}

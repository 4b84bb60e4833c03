package rules

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Store keeps limits: InMemory or OnRedis.
type Store interface {
	// limiter returns the limiter of one limit.
	limiter(d definition) (form.Lender, error)

	// together returns a limiter of several limits that decide in one call, or nil if the
	// Store cannot make one.
	together(d []definition) form.Lender
}

// lender returns a limiter of this module as a Lender.
func lender(l limit.KeyedReleaser, err error) (form.Lender, error) {
	if err != nil {
		return nil, err
	}
	lender, ok := l.(form.Lender)
	if !ok {
		return nil, fmt.Errorf("rratelimiter: %T takes no grants back", l)
	}
	return lender, nil
}

// InMemory is a Store in this process. Its rratelimiter is slidingwindow.Log, which decides as rratelimiter
// does on Redis.
func InMemory(opts ...limit.Option) Store { return memory{opts} }

type memory struct{ opts []limit.Option }

func (m memory) limiter(d definition) (form.Lender, error) {
	return lender(algorithms[d.algorithm].inMemory(d.numbers, m.opts...))
}

func (memory) together([]definition) form.Lender { return nil }

// OnRedis is a Store shared by all that use its name, of 1 to 200 bytes without braces. The limit "day" of
// the rule "search" has the name NAME:search:day, or NAME:search if it is the only limit and has no name.
// client keeps the limits of rratelimiter, with its options: each is a Keyed with that name, so that Java
// finds it. rdb keeps all others. If an argument is nil or the name is unusable, New returns a
// limit.ErrInvalidArgument.
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

func (s *onRedis) limiter(d definition) (form.Lender, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if d.algorithm == redisson {
		t := s.keyed(d)
		return keyeds{s.client, []*rratelimiter.Keyed{t}}, t.Validate()
	}
	return lender(algorithms[d.algorithm].onRedis(d.numbers, s.rdb, s.name+":"+d.key))
}

// keyed returns the limiters of a limit. Their acquires replace the rate that the rules had before a change.
func (s *onRedis) keyed(d definition) *rratelimiter.Keyed {
	return s.client.Keyed(s.name+":"+d.key, d.rate, d.per)
}

// mostTogether is the most limiters of a Group.
const mostTogether = 4

// together makes limits of rratelimiter decide in one script call. They have one key, and so one hash tag
// and one slot of a cluster.
func (s *onRedis) together(all []definition) form.Lender {
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
	return t
}

// keyeds are limits of rratelimiter whose limiters of a key decide together.
type keyeds struct {
	client *rratelimiter.Client
	all    []*rratelimiter.Keyed
}

// Lend takes permits from the limiters of a key.
func (t keyeds) Lend(ctx context.Context, key string, n int64) (r limit.Result, a form.Decision, err error) {
	start := time.Now()
	if len(t.all) == 1 {
		r, err = t.all[0].Allow(ctx, key, n)
	} else {
		r, err = t.group(key).Allow(ctx, n)
	}
	return r, form.Decision{Stamp: start.Add(r.ResetAfter).UnixMicro()}, err
}

// TryReserve reserves permits of the limiters of a key.
func (t keyeds) TryReserve(
	ctx context.Context, key string, n int64,
) (*limit.Reservation, limit.Result, error) {
	if len(t.all) == 1 {
		return t.all[0].TryReserve(ctx, key, n)
	}
	return t.group(key).TryReserve(ctx, n)
}

// Return gives permits back to the limiters of a key, unless they have come back with time.
func (t keyeds) Return(ctx context.Context, key string, n int64, d form.Decision) error {
	switch {
	case time.Now().UnixMicro() >= d.Stamp:
		return nil
	case len(t.all) == 1:
		return t.all[0].RateLimiter(key).Release(ctx, n)
	}
	return t.group(key).Release(ctx, n)
}

func (t keyeds) group(key string) *rratelimiter.Group {
	limiters := make([]*rratelimiter.RateLimiter, len(t.all))
	for i, keyed := range t.all {
		limiters[i] = keyed.RateLimiter(key)
	}
	return t.client.All(limiters...)
}

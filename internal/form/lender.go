package form

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Form is an algorithm in memory or on Redis, with a limit for each key, or with one limit that ignores
// keys.
type Form interface {
	Allow(ctx context.Context, key string, n int64) (limit.Result, error)
	Release(ctx context.Context, key string, n int64) error
	Peek(ctx context.Context, key string) (limit.Result, error)

	// Charge takes n permits whatever is left. Only the Rule of a limit.Ledger has charges.
	Charge(ctx context.Context, key string, n int64) (limit.Result, error)

	// Lend is Allow, and returns the Decision for Return.
	Lend(ctx context.Context, key string, n int64) (limit.Result, Decision, error)

	// Return gives back exactly what is still out of what a Lend granted, and nothing that has come back
	// with time, which other callers may have by now. Errors are those of Release.
	Return(ctx context.Context, key string, n int64, d Decision) error
}

// A Maker is an algorithm of a package under limit/, whose limiters are of type L.
type Maker[L any] interface {
	InMemory(opts ...limit.Option) (L, error)
	OnRedis(rdb redis.UniversalClient, name string) (L, error)
}

// Forms are the Form of one limit, and the Form with a limit for each key.
type Forms struct{ One, Each Form }

// An Opened is a form in memory, for an algorithm that does more than Take.
type Opened[S any] interface {
	// Do calls f with the state of a key and the time in µs, and excludes other callers
	// meanwhile. A form of one limit ignores the key. If the key is unusable or ctx has
	// ended, Do returns an error and does not call f.
	Do(ctx context.Context, key string, f func(state *S, now int64)) error
}

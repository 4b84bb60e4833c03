package rratelimiter

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Delete removes the limiter, and reports whether there was anything to remove
// (RRateLimiter.delete). It removes the permits all clients share and our own;
// those that other clients have taken from a PerClient limit end with their
// own time to live. After an error of the network it may have been removed.
func (l *RateLimiter) Delete(ctx context.Context) (bool, error) {
	k := l.keys.Load()
	return within(ctx, k, func(ctx context.Context) (bool, error) {
		n, err := k.onAll(ctx, deleteScript, k.All())
		return n > 0 && err == nil, err
	})
}

// onAll runs a script on all keys of a limiter, whatever its type, and perhaps on
// those of another.
func (k *limiterKeys) onAll(ctx context.Context, sc *redisx.Script, keys []string) (int64, error) {
	boxed := make([]any, len(keys))
	for i, key := range keys {
		boxed[i] = key
	}
	call := redisx.Call{Script: sc, Keys: boxed, Args: []any{k.Changed}, Done: did}
	reply, _, err := k.client.runner.Run(ctx, &call)
	return reply.At(0), k.scriptError(Overall, err)
}

// Exists reports whether the limiter is there (RRateLimiter.isExists), by its
// hash.
func (l *RateLimiter) Exists(ctx context.Context) (bool, error) {
	k := l.keys.Load()
	return within(ctx, k, func(ctx context.Context) (bool, error) {
		n, err := k.exists(ctx, k.Hash)
		return n > 0, k.scriptError(Overall, err)
	})
}

// exists returns 1 if a key is there.
func (k *limiterKeys) exists(ctx context.Context, key string) (int64, error) {
	return redisx.OnMaster(ctx, &k.client.runner, key, func(rdb redis.Cmdable) (int64, error) {
		return rdb.Exists(ctx, key).Result()
	})
}

// Rename gives the limiter another name, with the permits that are taken, and
// replaces the limiter that may have had that name (RRateLimiter.rename, which
// moves the hash alone). This RateLimiter then is the one of the new name. Other
// RateLimiters keep the old name and get ErrNotInitialized, and so may calls of
// this one that are made meanwhile. What other clients have taken from a PerClient
// limit stays under the old name.
//
// Errors are ErrNotInitialized if there is no limiter, and ErrInvalidArgument for
// an empty name or, on a cluster or a Ring, a name in another slot (give both the
// same {tag}). After an error of the network it may have been renamed.
func (l *RateLimiter) Rename(ctx context.Context, newName string) error {
	from := l.keys.Load()
	if err := from.usable(ctx); err != nil {
		return err
	}
	to := &limiterKeys{client: from.client, name: newName}
	if err := to.find("newName"); err != nil {
		return from.named(err)
	}
	if from.client.runner.Sharded && !wire.SameSlot(from.Hash, to.Hash) {
		bound := fmt.Sprintf("be in the cluster slot of %q", from.Hash)
		return from.named(invalid("newName", to.described(), bound))
	}
	_, err := within(ctx, from, func(ctx context.Context) (int64, error) {
		n, err := from.onAll(ctx, renameScript, append(from.All(), to.All()...))
		if n > 0 {
			to.believe(from.believed())
			l.keys.Store(to)
			l.moveWithdrawal(from)
		} else if err == nil {
			err = from.notInitialized()
		}
		return n, err
	})
	return err
}

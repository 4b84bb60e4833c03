package rratelimiter

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Delete removes the limiter, and reports whether there was anything to remove
// (RRateLimiter.delete). It removes the permits all clients share and our own;
// those that other clients have taken from a PerClient limit end with their
// own time to live.
func (l *RateLimiter) Delete(ctx context.Context) (bool, error) {
	if err := l.usable(ctx); err != nil {
		return false, err
	}
	n, err := l.client.rdb.Del(ctx, l.keys.Load().all()...).Result()
	return n > 0, err
}

// Exists reports whether the limiter is there (RRateLimiter.isExists), by its
// hash.
func (l *RateLimiter) Exists(ctx context.Context) (bool, error) {
	if err := l.usable(ctx); err != nil {
		return false, err
	}
	n, err := l.client.rdb.Exists(ctx, l.keys.Load().hash).Result()
	return n > 0, err
}

// Rename gives the limiter another name, with the permits that are taken, and
// replaces the limiter that may have had that name (RRateLimiter.rename, which
// moves the hash alone). This RateLimiter then is the one of the new name;
// others keep the old name, and the pairs of other clients of a PerClient
// limit stay behind.
//
// It answers ErrNotInitialized where no limiter is, ErrInvalidArgument for an
// empty name or, on a cluster, one in another slot (give both the same {tag}).
func (l *RateLimiter) Rename(ctx context.Context, newName string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	from := l.keys.Load()
	to, err := l.client.keysOf(newName)
	if err != nil {
		return err
	}
	if _, cluster := l.client.rdb.(*redis.ClusterClient); cluster && hashTag(from.hash) != hashTag(to.hash) {
		return invalid("newName", fmt.Sprintf("%q", newName), fmt.Sprintf("in the cluster slot of %q", from.hash))
	}
	if from.hash != to.hash {
		err = l.move(ctx, from, to)
	}
	if err == nil {
		l.keys.Store(to)
	}
	return err
}

// move renames the keys in one transaction, again if they are changed between
// the look at them and the transaction.
func (l *RateLimiter) move(ctx context.Context, from, to *limiterKeys) error {
	old, renamed := from.all(), to.all()
	tx := func(tx *redis.Tx) error {
		exists := make([]bool, len(old))
		for i, key := range old {
			n, err := tx.Exists(ctx, key).Result()
			if err != nil {
				return err
			}
			exists[i] = n == 1
		}
		if !exists[0] {
			return fmt.Errorf("%w: %s", ErrNotInitialized, from.hash)
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range old {
				if exists[i] {
					p.Rename(ctx, key, renamed[i])
				} else {
					p.Del(ctx, renamed[i])
				}
			}
			return nil
		})
		return err
	}
	for {
		err := l.client.rdb.Watch(ctx, tx, old...)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

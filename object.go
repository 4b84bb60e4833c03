package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Delete removes the limiter, and reports whether there was anything to remove
// (RRateLimiter.delete). It removes the permits all clients share and our own;
// those that other clients have taken from a PerClient limit end with their
// own time to live. After an error of the network it may have been removed.
func (l *RateLimiter) Delete(ctx context.Context) (bool, error) {
	if err := l.usable(ctx); err != nil {
		return false, err
	}
	k := l.keys.Load()
	argv := []any{"evalsha", deleteScript.hash, 5}
	for _, key := range k.all() {
		argv = append(argv, key)
	}
	r, _, err := l.client.sender.send(ctx, deleteScript, append(argv, k.channel), time.Now())
	return r.numbers[0] > 0, err
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
// others keep the old name and meet ErrNotInitialized, as calls of this one may
// that are made meanwhile. The pairs of other clients of a PerClient limit stay
// behind.
//
// It answers ErrNotInitialized where no limiter is, ErrInvalidArgument for an
// empty name or, on a cluster or a Ring, one in another slot (give both the
// same {tag}). After an error of the network it may have been renamed.
func (l *RateLimiter) Rename(ctx context.Context, newName string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	from := l.keys.Load()
	to, err := l.client.keysOf(newName)
	if err != nil {
		return err
	}
	if l.client.sharded && hashTag(from.hash) != hashTag(to.hash) {
		return invalid("newName", fmt.Sprintf("%q", newName), fmt.Sprintf("in the cluster slot of %q", from.hash))
	}
	if err := l.move(ctx, from, to); err != nil {
		return err
	}
	l.keys.Store(to)
	return nil
}

// move renames the keys in one transaction. Only the hash is watched: it must
// be there, and hardly anything changes it, while each acquire changes the
// others.
func (l *RateLimiter) move(ctx context.Context, from, to *limiterKeys) error {
	old, renamed := from.all(), to.all()
	tx := func(tx *redis.Tx) error {
		n, err := tx.Exists(ctx, from.hash).Result()
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: %s", ErrNotInitialized, from.hash)
		}
		if from.hash == to.hash {
			return nil
		}
		cmds, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Unlink(ctx, renamed...)
			for i, key := range old {
				p.Rename(ctx, key, renamed[i])
			}
			p.Publish(ctx, from.channel, "changed")
			return nil
		})
		if len(cmds) > 1 && redis.HasErrorPrefix(err, "no such key") {
			err = cmds[1].Err() // value and permits need not be there
		}
		return err
	}
	// With WithKeepAlive each use touches the hash, too, so a limiter that is
	// in heavy use may take many attempts.
	for range 1000 {
		if err := l.client.rdb.Watch(ctx, tx, from.hash); !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
	return fmt.Errorf("rratelimiter: renaming %s: it was in use each time: %w", from.hash, redis.TxFailedErr)
}

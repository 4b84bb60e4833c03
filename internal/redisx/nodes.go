package redisx

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// OnMaster asks the master that has a key. A client that reads from replicas would
// ask one of them, which may not have the last change yet.
func OnMaster[T any](
	ctx context.Context, r *Runner, key string, ask func(rdb redis.Cmdable) (T, error),
) (T, error) {
	if r.fromReplicas {
		if node, err := r.nodeOf(ctx, key); err == nil {
			v, err := ask(node)
			if moved, _, _ := redirected(err); !moved {
				return v, err
			}
		}
	}
	return ask(r.rdb)
}

// relocate has a client of a cluster ask again where its nodes are, after a failure
// to reach one. go-redis does so only every 60 s by default, and calls the dead
// master until then. It asks at most once in relocateEvery.
func (r *Runner) reloadNodes(ctx context.Context, err error) {
	if r.reload == nil || Answered(err) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	last, now := r.lastReload.Load(), time.Now().UnixNano()
	if time.Duration(now-last) >= reloadEvery && r.lastReload.CompareAndSwap(last, now) {
		r.reload(ctx)
	}
}

// relocateEvery bounds what a cluster is asked in an outage: many processes fail at
// once.
const reloadEvery = time.Second

// Shard returns the address of the server that a Ring keeps a key on; empty for all
// other kinds of client.
func (k *Kind) Shard(key string) string {
	if ring, ok := k.rdb.(interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}); ok {
		if shard, err := ring.GetShardClientForKey(key); err == nil {
			return shard.Options().Addr
		}
	}
	return ""
}

package redisx

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// OnMaster asks the master of a key. A client that reads from replicas would ask
// one of them, which may lack the last change.
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

// reloadNodes makes a cluster client ask for the nodes again after it failed to
// reach one. By default go-redis asks only every 60 s, and calls a dead master
// until then. The swap lets one of many failing callers ask.
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

// reloadEvery bounds the load on a cluster in an outage, in which many processes
// fail at once.
const reloadEvery = time.Second

// Shard returns the address of the server on which a Ring keeps a key. It is
// empty for all other kinds of client.
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

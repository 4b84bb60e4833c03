package redisx

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ShardedPubSub reports whether the client is that of a cluster whose servers have
// sharded pub/sub: whether Redisson publishes by SPUBLISH there. It asks a server
// until one has answered, and remembers the answer. An error leaves it open, also that
// of a user who may not ask: for Redisson, whose user may, the answer may be yes.
func (r *Runner) ShardedPubSub(ctx context.Context) (bool, error) {
	if _, ok := r.rdb.(interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}); !ok {
		return false, nil
	}
	if remembered := r.shardedPubSub.Load(); remembered != nil {
		return *remembered, nil
	}
	has, err := serverHas(r.rdb.PubSubShardNumSub(ctx).Err())
	if has && err == nil { // go-redis has a client of a cluster for Sentinel, too
		has, err = serverHas(r.rdb.ClusterSlots(ctx).Err())
	}
	if err == nil {
		r.shardedPubSub.Store(&has)
	}
	return has, err
}

// accepts reports whether a server has carried out a command, which failed with err.
// It returns the error if that says nothing of whether the server has the command.
func serverHas(err error) (bool, error) {
	var answer redis.Error
	switch {
	case err == nil:
		return true, nil
	case Final(err) && errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "ERR "):
		return false, nil
	}
	return false, err
}

package redisx

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ShardedPubSub reports whether the client is a cluster client whose servers have
// sharded pub/sub, where Redisson publishes by SPUBLISH. It asks a server until
// one has answered, and remembers the answer. An error is no answer, even one
// about missing rights, because the user of Redisson may have them and get a yes.
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
	if has && err == nil { // go-redis also has a cluster client for Sentinel
		has, err = serverHas(r.rdb.ClusterSlots(ctx).Err())
	}
	if err == nil {
		r.shardedPubSub.Store(&has)
	}
	return has, err
}

// serverHas reports whether a server has a command that failed with err. It
// returns the error if that does not say.
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

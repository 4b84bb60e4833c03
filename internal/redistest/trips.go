package redistest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A RoundTrips counts the round trips of a go-redis client, to which it is added as a
// hook. It leaves out those by which go-redis introduces a new connection.
type RoundTrips struct{ n atomic.Int64 }

var _ redis.Hook = (*RoundTrips)(nil)

// Load returns how many round trips there were so far.
func (r *RoundTrips) Load() int64 { return r.n.Load() }

// DialHook does nothing.
func (*RoundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (r *RoundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.add(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline.
func (r *RoundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.add(cmds[0])
		return next(ctx, cmds)
	}
}

func (r *RoundTrips) add(first redis.Cmder) {
	if name := first.Name(); name != "hello" && name != "client" {
		r.n.Add(1)
	}
}

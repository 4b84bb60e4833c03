package redistest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A Hook sees the commands of a go-redis client before they are sent: one alone, or those of a pipeline.
// If it returns an error, they are not sent. It is not called for the commands by which go-redis introduces a
// new connection.
type Hook func(ctx context.Context, cmds ...redis.Cmder) error

var _ redis.Hook = Hook(nil)

// DialHook does nothing.
func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook calls the Hook for a command.
func (see Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return see.process(ctx, func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook calls the Hook for a pipeline.
func (see Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return see.process(ctx, func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (see Hook) process(ctx context.Context, send func() error, cmds ...redis.Cmder) error {
	if name := cmds[0].Name(); name == "hello" || name == "client" {
		return send()
	}
	if err := see(ctx, cmds...); err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
	return send()
}

// RoundTrips counts the round trips of a client from now on.
func RoundTrips(rdb redis.UniversalClient) *atomic.Int64 {
	n := new(atomic.Int64)
	rdb.AddHook(Hook(func(context.Context, ...redis.Cmder) error {
		n.Add(1)
		return nil
	}))
	return n
}

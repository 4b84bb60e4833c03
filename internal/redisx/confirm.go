package redisx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Confirmation says how many replicas must have the changes of a call, and how
// long the call waits for them.
type Confirmation struct {
	Replicas int
	Within   time.Duration
}

// An UnconfirmedError says that a call was carried out, but that too few replicas
// confirmed it in time. It counts as an answer of Redis.
type UnconfirmedError struct {
	Replicas int64 // that confirmed it
	Want     Confirmation
}

func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("%d of %d replicas have it after %v", e.Replicas, e.Want.Replicas, e.Want.Within)
}

// RedisError marks the error as an answer of Redis.
func (*UnconfirmedError) RedisError() {}

// processAndWait sends a command on a key, followed by WAIT in the same write to the
// connection: WAIT is about the writes of its own connection. After a MOVED on a
// cluster, go-redis would send the two commands of a pipeline to different nodes.
// So processAndWait sends both to one node, and follows a redirection with both.
//
// The error is that of the command. The reply to WAIT is in cmd.confirm.
func (r *Runner) processAndWait(ctx context.Context, key string, cmd *command) error {
	node, err := r.nodeOf(ctx, key)
	for asking, hop := false, 0; err == nil; hop++ {
		cmd.SetErr(nil)
		pipe := node.Pipeline()
		if asking {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, cmd)
		cmd.confirm = redis.NewCmd(ctx, "wait", r.Confirm.Replicas, r.Confirm.Within.Milliseconds())
		_ = pipe.Process(ctx, cmd.confirm)
		_, _ = pipe.Exec(ctx) // each command keeps its own error
		moved, addr := false, ""
		if moved, asking, addr = redirected(cmd.Err()); !moved || r.servers == nil || hop > r.retries {
			return cmd.Err()
		}
		if node = r.nodeAt(ctx, addr); node == nil { // the client does not know the new node yet
			asking = false
			if err = r.pause(ctx, hop); err == nil {
				node, err = r.nodeOf(ctx, key)
			}
		}
	}
	return err
}

// carriedOut returns the reply to a call that was carried out. If the reply
// cannot be read, or replicas lack the change, it returns an error, and the call
// is lost. more says that the confirmation itself got no reply, so that another
// attempt may get one.
func (r *Runner) carriedOut(call *Call, cmd *command) (reply Reply, lost, more bool, err error) {
	reply, err = cmd.reply()
	if err != nil || cmd.confirm == nil || !call.Done(reply) {
		return reply, false, false, err
	}
	err = r.confirmed(cmd.confirm)
	return reply, err != nil, err != nil && !Answered(err), err
}

// confirmed returns nil if enough replicas have confirmed a call that was carried out.
func (r *Runner) confirmed(wait *redis.Cmd) error {
	n, err := wait.Int64()
	switch {
	case err == nil && n < int64(r.Confirm.Replicas):
		return &UnconfirmedError{n, r.Confirm}
	case Answered(err):
		return fmt.Errorf("WAIT: %w", err)
	}
	return err
}

// nodeOf returns the client for commands that must share one connection: on a
// cluster that of the key's master, on a Ring that of its shard.
func (k *Kind) nodeOf(ctx context.Context, key string) (redis.Cmdable, error) {
	switch rdb := k.rdb.(type) {
	case interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}:
		return rdb.MasterForKey(ctx, key)
	case interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}:
		return rdb.GetShardClientForKey(key)
	}
	return k.rdb, nil
}

// nodeAt returns the client of the master at an address, nil if there is none. It
// makes the client ask the cluster for its nodes.
func (k *Kind) nodeAt(ctx context.Context, addr string) redis.Cmdable {
	var mu sync.Mutex
	var found *redis.Client
	_ = k.servers(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if node.Options().Addr == addr {
			found = node
		}
		return nil
	})
	if found == nil {
		return nil
	}
	return found
}

// redirected reports whether a failed command must go to another node, the one at
// addr, or to a new client of the same node because the old one was closed.
// asking is for a key on its way to that node.
func redirected(err error) (moved, asking bool, addr string) {
	if addr, moved = redis.IsMovedError(err); moved {
		return true, false, addr
	}
	if addr, asking = redis.IsAskError(err); asking {
		return true, true, addr
	}
	return errors.Is(err, redis.ErrClosed), false, ""
}

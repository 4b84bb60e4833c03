package redisx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Confirmation is how many replicas must have what a call has changed, and how
// long it waits for them.
type Confirmation struct {
	Replicas int
	Within   time.Duration
}

// An UnconfirmedError says that a call was carried out, and that too few replicas
// have confirmed it in time. It is an answer of Redis.
type UnconfirmedError struct {
	Replicas int64 // that have it
	Want     Confirmation
}

func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("%d of %d replicas have it after %v", e.Replicas, e.Want.Replicas, e.Want.Within)
}

// RedisError says that Redis has replied.
func (*UnconfirmedError) RedisError() {}

// processAndWait sends a command and WAIT behind it, in one write to the connection:
// WAIT is for what that connection has written. go-redis would send the two of a
// pipeline on a cluster to different nodes after a MOVED, so this sends them to one
// node, and follows to another with both.
//
// The error is that of the command. What WAIT said is in cmd.confirm.
func (r *Runner) processAndWait(ctx context.Context, cmd *command) error {
	node, err := r.nodeOf(ctx, cmd.key())
	for asking, hop := false, 0; err == nil; hop++ {
		cmd.SetErr(nil)
		pipe := node.Pipeline()
		if asking {
			_ = pipe.Process(ctx, newCommand(ctx, []any{"asking"}))
		}
		_ = pipe.Process(ctx, cmd)
		cmd.confirm = newCommand(ctx, []any{"wait", r.Confirm.Replicas, r.Confirm.Within.Milliseconds()})
		_ = pipe.Process(ctx, cmd.confirm)
		_, _ = pipe.Exec(ctx) // each command keeps its own error
		moved, addr := false, ""
		if moved, asking, addr = redirected(cmd.Err()); !moved || r.servers == nil || hop > r.retries {
			return cmd.Err()
		}
		if node = r.nodeAt(ctx, addr); node == nil { // not every node knows it yet
			asking = false
			if err = r.pause(ctx, hop); err == nil {
				node, err = r.nodeOf(ctx, cmd.key())
			}
		}
	}
	return err
}

// carriedOut returns the reply to a call that was carried out, and the error if it
// cannot be read or replicas lack it: then it is lost. more is for a confirmation
// whose own reply did not come.
func (r *Runner) carriedOut(call *Call, cmd *command) (reply Reply, lost, more bool, err error) {
	reply, err = Decode(cmd.Val())
	if err != nil || cmd.confirm == nil || !call.Done(reply) {
		return reply, false, false, err
	}
	err = r.confirmed(cmd.confirm)
	return reply, err != nil, err != nil && !Answered(err), err
}

// confirmed returns nil if enough replicas have confirmed a call that was carried out.
func (r *Runner) confirmed(wait *command) error {
	n, err := wait.Int64()
	switch {
	case err == nil && n < int64(r.Confirm.Replicas):
		return &UnconfirmedError{n, r.Confirm}
	case Answered(err):
		return fmt.Errorf("WAIT: %w", err)
	}
	return err
}

// nodeOf returns the client to send to what must arrive on one connection: on a
// cluster that of the master of a key, on a Ring that of its shard.
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
// has the client ask the cluster for its nodes.
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

// redirected reports whether a command that failed belongs to another node, the one
// at addr, or to a new client of the same, for the old one was closed. asking is for
// a key that is on its way to that node.
func redirected(err error) (moved, asking bool, addr string) {
	if addr, moved = redis.IsMovedError(err); moved {
		return true, false, addr
	}
	if addr, asking = redis.IsAskError(err); asking {
		return true, true, addr
	}
	return errors.Is(err, redis.ErrClosed), false, ""
}

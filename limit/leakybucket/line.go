package leakybucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// ErrFull is the error of a Wait that finds the line full. Nothing was taken. Test with errors.Is.
var ErrFull = errors.New("rratelimiter: the line is full")

// A Line is the limiter of a Queue, on which callers can wait.
type Line interface {
	limit.Releaser

	// Wait takes one permit when its turn comes: first come, first served. On success it
	// returns nil. If Capacity callers are already waiting, or the turn would be later
	// than Capacity turns from now, it returns ErrFull at once. If ctx ends before the
	// turn, Wait leaves the line, takes nothing, and errors.Is(err, ctx.Err()) holds.
	Wait(ctx context.Context) error
}

// Lines are the limiters of a Queue for each key.
type Lines interface {
	limit.KeyedReleaser

	// Wait is Wait of a Line, for the limit of key.
	Wait(ctx context.Context, key string) error
}

// LineInMemory returns a limiter in this process. A caller that leaves the line gives its turn to the
// next, and all behind it move up. Callers sleep by the clock of the machine, even with limit.WithClock. If
// the process is stopped for a while, their turns are delayed by that time, at the same pace. Like all the
// methods, LineInMemory returns a limit.ErrInvalidArgument if a field is out of its bounds.
func (q Queue) LineInMemory(opts ...limit.Option) (Line, error) {
	l, err := form.InMemory(q.allows, opts)
	if err != nil {
		return nil, err
	}
	return oneLine{l, q.inMemory(l.(form.Opened[line]))}, nil
}

// LineInMemoryKeyed returns a limiter with a line for each key, in this process. One of the next calls
// drops a line that owes nothing.
func (q Queue) LineInMemoryKeyed(opts ...limit.Option) (Lines, error) {
	l, err := form.InMemoryKeyed(q.allows, opts)
	if err != nil {
		return nil, err
	}
	return keyedLines{l, q.inMemory(l.(form.Opened[line]))}, nil
}

// LineOnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its key is
// {name}:leakyqueue, which Redis drops when nothing is owed.
//
// A waiting caller is assigned its turn at once, and sleeps until then without asking Redis. So only
// the last caller in line can give its turn back when it leaves. Elsewhere the turn passes unused, and
// the callers behind keep theirs. A lost reply is an error, and may cost a turn.
//
// Turns are times. If a process is stopped for a while, all its callers whose turns have passed go at
// once when it resumes.
//
// The numbers may differ between processes, as during a deploy: assigned turns stay. A limiter with a
// smaller Capacity refuses until enough turns have passed.
func (q Queue) LineOnRedis(rdb redis.UniversalClient, name string) (Line, error) {
	l, _ := form.OnRedis(q.allows, rdb, name) // fails as w does
	w, err := form.OnRedis(q.waits, rdb, name)
	if err != nil {
		return nil, err
	}
	return oneLine{l, reserved{w, q}}, nil
}

// LineOnRedisKeyed is LineOnRedis with a line for each key, under {name:key}:leakyqueue.
func (q Queue) LineOnRedisKeyed(rdb redis.UniversalClient, name string) (Lines, error) {
	l, _ := form.OnRedisKeyed(q.allows, rdb, name) // fails as w does
	w, err := form.OnRedisKeyed(q.waits, rdb, name)
	if err != nil {
		return nil, err
	}
	return keyedLines{l, reserved{w, q}}, nil
}

// A waiter waits for a turn, in memory or on Redis.
type waiter interface {
	wait(ctx context.Context, key string) error
}

type oneLine struct {
	form.Lone
	waiter
}

// Wait implements Line.
func (l oneLine) Wait(ctx context.Context) error { return l.wait(ctx, "") }

type keyedLines struct {
	form.Keyed
	waiter
}

// Wait implements Lines.
func (l keyedLines) Wait(ctx context.Context, key string) error { return l.wait(ctx, key) }

// A reserved waits for turns that Redis has assigned.
type reserved struct {
	lender form.Lender
	queue  Queue
}

func (r reserved) wait(ctx context.Context, key string) error {
	_, d, err := r.lender.Lend(ctx, key, 1)
	switch {
	case err != nil:
		return err
	case !d.Allowed:
		return r.queue.full()
	case d.Retry == 0:
		return nil
	}
	if pause.For(ctx, time.Duration(d.Retry)*time.Microsecond) != nil {
		go func() { _ = r.lender.Return(context.WithoutCancel(ctx), key, 1, d) }()
		return left(ctx)
	}
	return nil
}

// full returns the error of a full line.
func (q Queue) full() error {
	return fmt.Errorf("%w: at most %d callers may wait", ErrFull, q.Capacity)
}

// left returns the error of a caller that left the line.
func left(ctx context.Context) error { return fmt.Errorf("rratelimiter: %w", ctx.Err()) }

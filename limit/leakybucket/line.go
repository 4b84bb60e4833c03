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

// ErrFull is the error of a Wait that finds as many in line as may wait. Nothing was
// taken. Test with errors.Is.
var ErrFull = errors.New("rratelimiter: the line is full")

// A Line is the limiter of a Queue for which callers can wait.
type Line interface {
	limit.Releaser

	// Wait takes one permit when it is its turn: first come, first served. It returns
	// nil then. If Capacity wait already, or a turn would be later than Capacity turns
	// from now, it returns ErrFull at once. If ctx ends before the turn, it leaves the
	// line, takes nothing, and errors.Is(err, ctx.Err()) holds.
	Wait(ctx context.Context) error
}

// Lines are the limiters of a Queue for each key.
type Lines interface {
	limit.KeyedReleaser

	// Wait is that of a Line, for the limit of key.
	Wait(ctx context.Context, key string) error
}

// LineInMemory returns the limiter of this process. Who leaves the line gives the turn to
// the next one, and all behind move up. Those who wait sleep by the clock of the machine,
// also if there is an option WithClock. If the process is stopped for a while, they have
// their turns that much later, at the same pace. A field that is out of its bounds is a
// limit.ErrInvalidArgument, as with all the methods.
func (q Queue) LineInMemory(opts ...limit.Option) (Line, error) {
	l, err := form.InMemory(q.allows, opts)
	if err != nil {
		return nil, err
	}
	return oneLine{l, q.inMemory(l.(form.Opened[line]))}, nil
}

// LineInMemoryKeyed returns a limiter with a line for each key, in this process. A line
// that owes nothing is dropped at one of the next calls.
func (q Queue) LineInMemoryKeyed(opts ...limit.Option) (Lines, error) {
	l, err := form.InMemoryKeyed(q.allows, opts)
	if err != nil {
		return nil, err
	}
	return keyedLines{l, q.inMemory(l.(form.Opened[line]))}, nil
}

// LineOnRedis returns the limiter that all share who use its name, 1 to 1,024 bytes. Its
// key is {name}:leakyqueue, which Redis drops when nothing is owed.
//
// Who waits is given a turn at once, and sleeps until then without asking Redis. So who
// leaves the line gives the turn back only if nobody stands behind; otherwise it passes
// unused, and the others come at their time. A reply that is lost is an error, and may
// cost a turn.
//
// Turns are times. If a process is stopped for a while, all its callers whose turns have
// passed meanwhile go at once when it goes on.
//
// The numbers may differ from one process to the next, as during a deploy: turns that were
// given stay. One with a smaller Capacity refuses until enough of them have passed.
func (q Queue) LineOnRedis(rdb redis.UniversalClient, name string) (Line, error) {
	l, _ := form.OnRedis(q.allows, rdb, name) // its error is that of w
	w, err := form.OnRedis(q.waits, rdb, name)
	if err != nil {
		return nil, err
	}
	return oneLine{l, reserved{w, q}}, nil
}

// LineOnRedisKeyed is LineOnRedis with a line for each key, under {name:key}:leakyqueue.
func (q Queue) LineOnRedisKeyed(rdb redis.UniversalClient, name string) (Lines, error) {
	l, _ := form.OnRedisKeyed(q.allows, rdb, name) // its error is that of w
	w, err := form.OnRedisKeyed(q.waits, rdb, name)
	if err != nil {
		return nil, err
	}
	return keyedLines{l, reserved{w, q}}, nil
}

// A waiter has callers wait for their turn: those in memory or those of Redis.
type waiter interface {
	wait(ctx context.Context, key string) error
}

type oneLine struct {
	form.Lone
	waiter
}

// Wait is that of a Line.
func (l oneLine) Wait(ctx context.Context) error { return l.wait(ctx, "") }

type keyedLines struct {
	form.Keyed
	waiter
}

// Wait is that of Lines.
func (l keyedLines) Wait(ctx context.Context, key string) error { return l.wait(ctx, key) }

// A reserved has those wait who have a turn in Redis.
type reserved struct {
	lender form.Lender
	queue  Queue
}

func (r reserved) wait(ctx context.Context, key string) error {
	_, a, err := r.lender.Lend(ctx, key, 1)
	switch {
	case err != nil:
		return err
	case !a.Allowed:
		return r.queue.full()
	case a.Retry == 0:
		return nil
	}
	if pause.For(ctx, time.Duration(a.Retry)*time.Microsecond) != nil {
		go func() { _ = r.lender.Return(context.WithoutCancel(ctx), key, 1, a) }()
		return left(ctx)
	}
	return nil
}

// full returns the error of a line that has no room.
func (q Queue) full() error { return fmt.Errorf("%w: %d wait at most", ErrFull, q.Capacity) }

// left returns the error of one who has left the line.
func left(ctx context.Context) error { return fmt.Errorf("rratelimiter: %w", ctx.Err()) }

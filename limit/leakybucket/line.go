package leakybucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/limit"
)

// ErrFull is the error of a Wait that finds the line full. Nothing was taken. Test with errors.Is.
var ErrFull = errors.New("rratelimiter: the line is full")

// A Line is the limiter of a Queue, in which callers can wait: one limit, or with For one limit for each key.
// It is a limit.Releaser, a limit.Peeker and a limit.Keyed. Calls of the zero Line panic.
type Line struct {
	form, each waits // of this limit, and of those by key
	key        string
}

// For returns the limit of a key of 1 to 1,024 bytes. With another key each call is a
// limit.ErrInvalidArgument.
func (l Line) For(key string) Line { return Line{l.each, l.each, key} }

// Allow takes the turns of n permits if nothing is owed.
func (l Line) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return l.form.Allow(ctx, l.key, n)
}

// Release gives back n turns at the end of the line.
func (l Line) Release(ctx context.Context, n int64) error { return l.form.Release(ctx, l.key, n) }

// Peek returns the numbers without taking anything ([limit.Peeker]).
func (l Line) Peek(ctx context.Context) (limit.Result, error) { return l.form.Peek(ctx, l.key) }

// Wait takes one permit when its turn comes: first come, first served. On success it returns nil. If Capacity
// callers are already waiting, or the turn would be later than Capacity turns from now, it returns ErrFull at
// once. If ctx ends before the turn, Wait leaves the line and takes nothing: errors.Is(err, ctx.Err()) holds.
func (l Line) Wait(ctx context.Context) error { return l.form.wait(ctx, l.key) }

// waits is the form that Allow uses, and the waiter that Wait uses.
type waits struct {
	form.Form
	waiter
}

// A waiter waits for a turn, in memory or on Redis.
type waiter interface {
	wait(ctx context.Context, key string) error
}

// InMemory returns a limiter in this process. A caller that leaves the line gives its turn to the next, and
// all behind it move up. Callers sleep by the clock of the machine, even with limit.WithClock. If the process
// is stopped for a while, their turns are delayed by that time, at the same pace. Later calls drop the lines
// of keys once they owe nothing. The error is a limit.ErrInvalidArgument if a field is out of its bounds.
func (q Queue) InMemory(opts ...limit.Option) (Line, error) {
	forms, err := form.InMemory(q.allows, opts)
	if err != nil {
		return Line{}, err
	}
	return Line{q.inMemory(forms.One), q.inMemory(forms.Each), ""}, nil
}

// OnRedis returns a limiter shared by all that use its name, of 1 to 1,024 bytes. Its Redis key is
// {name}:leakyqueue, or {name:key}:leakyqueue for a key of For. Redis drops the key when nothing is owed. The
// error is that of InMemory, also for a nil rdb or an unusable name.
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
func (q Queue) OnRedis(rdb redis.UniversalClient, name string) (Line, error) {
	allows, err := form.OnRedis(q.allows, rdb, name)
	if err != nil {
		return Line{}, err
	}
	conn, _ := form.Connect(rdb, name) // OnRedis has checked it
	rule, _ := q.waits()
	turns := form.OnConn(rule, conn, name)
	of := func(f, turns form.Form) waits {
		r := reserved{conn, name, turns, nil, q}
		if local := form.Local(f); local != nil {
			r.local = q.inMemory(local)
		}
		return waits{f, r}
	}
	return Line{of(allows.One, turns.One), of(allows.Each, turns.Each), ""}, nil
}

var (
	_ limit.Releaser    = Line{}
	_ limit.Peeker      = Line{}
	_ limit.Keyed[Line] = Line{}
)

// A reserved is the waiter of a Queue on Redis, which assigns the turns.
type reserved struct {
	form.Conn
	name  string
	turns form.Form
	local waiter // in this process, of a Client while Redis is down
	queue Queue
}

func (r reserved) wait(ctx context.Context, key string) (err error) {
	start, instead := time.Now(), host.Nothing
	defer func() {
		call := host.Call{Permits: 1, Err: err, Start: start}
		if err == nil {
			call.Result = limit.Result{Allowed: true, Degraded: instead != host.Nothing}
		}
		r.Observe(ctx, r.name, key, call)
	}()
	var d form.Decision
	instead, err = r.Ask(ctx, form.NameOf(r.name, key), func(ctx context.Context) (err error) {
		_, d, err = r.turns.Lend(ctx, key, 1)
		return err
	})
	switch {
	case instead == host.Local:
		return r.Wait(ctx, func(ctx context.Context) error { return r.local.wait(ctx, key) })
	case instead == host.Allow:
		return nil
	case err != nil:
		return err
	case !d.Allowed:
		return r.queue.full()
	case d.Retry == 0:
		return nil
	}
	return r.Wait(ctx, func(ctx context.Context) error {
		if pause.For(ctx, time.Duration(d.Retry)*time.Microsecond) != nil {
			r.Later(func() { _ = r.turns.Return(context.WithoutCancel(ctx), key, 1, d) })
			return left(ctx)
		}
		return nil
	})
}

// full returns the error of a full line.
func (q Queue) full() error {
	return fmt.Errorf("%w: at most %d callers may wait", ErrFull, q.Capacity)
}

// left returns the error of a caller that left the line.
func left(ctx context.Context) error { return fmt.Errorf("rratelimiter: %w", ctx.Err()) }

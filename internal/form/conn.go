package form

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Conn calls Redis, for a Client if there is one.
type Conn struct {
	Runner redisx.Runner
	host   *host.Host // nil for no Client
}

// Connect returns the Conn of a limiter called name, or an error if it cannot be used.
func Connect(rdb redis.UniversalClient, name string) (Conn, error) {
	if redisx.IsNil(rdb) {
		return Conn{}, fmt.Errorf("%w: rdb is nil", limit.ErrInvalidArgument)
	}
	if err := Usable("the name", name); err != nil {
		return Conn{}, err
	}
	if host.On != nil {
		if of := host.On(rdb); of != nil {
			return Conn{of.Runner, of}, of.Err
		}
	}
	return Conn{redisx.NewRunner(rdb), nil}, nil
}

// An outcome has the return values of a call.
type outcome[T any] struct {
	value T
	err   error
}

// Within calls Redis, and returns at the end of ctx at the latest, or when the Client is closed. undo gives
// back permits that Redis granted to a caller that had left. If ctx never ends, Within starts no goroutine.
func Within[T any](ctx context.Context, conn Conn, name string, call func(context.Context) (T, error),
	undo func(context.Context, T)) (none T, err error) {
	closing, start := context.Background(), redisx.Go
	if conn.host != nil {
		closing, start = conn.host.Ctx, conn.host.Work
	}
	out, left := redisx.Leave(ctx, closing, start, func(context.Context) outcome[T] {
		value, err := call(redisx.Undated{Context: ctx})
		return outcome[T]{value, err}
	}, func(late outcome[T]) {
		if late.err == nil {
			undo(context.WithoutCancel(ctx), late.value)
		}
	})
	if left {
		return none, fmt.Errorf("rratelimiter: %s: no reply from Redis: %w", name,
			cmp.Or(ctx.Err(), context.Cause(closing)))
	}
	return out.value, out.err
}

// Ask calls call, which asks Redis about the limiter of that name. For a Client it returns what decides
// instead if Redis has failed or limiting is off.
func (c Conn) Ask(
	ctx context.Context, name string, call func(ctx context.Context) error,
) (host.Instead, error) {
	switch {
	case c.host == nil:
		return host.Nothing, call(ctx)
	case c.host.Off():
		return host.Allow, nil
	}
	return c.host.Ask(ctx, name, call)
}

// Tell is Ask for a call without a fallback. Its error is an unsent if Redis was not asked.
func (c Conn) Tell(ctx context.Context, name string, call func(ctx context.Context) error) error {
	if c.host == nil {
		return call(ctx)
	}
	sent := false
	_, err := c.host.Ask(ctx, name, func(ctx context.Context) error {
		sent = true
		return call(ctx)
	})
	if err != nil && !sent {
		err = unsent{err}
	}
	return err
}

// An unsent is the error of a call that has not asked its store, and so may be made again.
type unsent struct{ error }

// Unwrap returns the error.
func (u unsent) Unwrap() error { return u.error }

// Later runs f, which gives permits back, in a goroutine. A Client that is closed waits for it; f still runs
// if the Client was closed before.
func (c Conn) Later(f func()) {
	if c.host == nil || !c.host.Work(func(context.Context) { f() }) {
		go f()
	}
}

// Wait calls wait with a context that also ends when the Client is closed. The error is then that of a closed
// Client.
func (c Conn) Wait(ctx context.Context, wait func(ctx context.Context) error) error {
	if c.host == nil {
		return wait(ctx)
	}
	within, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(c.host.Ctx, end)
	defer stop()
	err := wait(within)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return context.Cause(c.host.Ctx)
	}
	return err
}

// Observe tells the Observer of the Client, if there is one, about a call for the limit of a key; the key is
// empty if there is only one limit.
func (c Conn) Observe(ctx context.Context, name, key string, call host.Call) {
	if c.host == nil || c.host.Observe == nil {
		return
	}
	if call.Result.Name = NameOf(name, key); key != "" {
		call.Policy = name
	}
	c.host.Observe(ctx, call)
}

// NameOf returns the name of the limit of a key, which is empty if there is only one limit.
func NameOf(name, key string) string {
	if key == "" {
		return name
	}
	return name + ":" + key
}

// mostLocals is the number of keys of a limiter that have limits of their own in this process while Redis
// is down. Visitors may choose the keys, so their number must be bounded.
const mostLocals = 5000

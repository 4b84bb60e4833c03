package form

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// OnRedis returns a limiter of one limit, which all have who use its name. rule is
// called once.
func OnRedis[S any](rule func() (Rule[S], error), rdb redis.UniversalClient,
	name string) (Lone, error) {
	s, err := newStore(rule, rdb, name)
	if err != nil {
		return nil, err
	}
	return one{s}, nil
}

// OnRedisKeyed returns a limiter with a limit for each key, which all have who use its
// name. rule is called once.
func OnRedisKeyed[S any](rule func() (Rule[S], error), rdb redis.UniversalClient,
	name string) (Keyed, error) {
	s, err := newStore(rule, rdb, name)
	if err != nil {
		return nil, err
	}
	return many{s}, nil
}

// A store is the limits of one Rule in Redis.
type store struct {
	Numbers
	runner redisx.Runner
	script *redisx.Script
	args   []any
	name   string
}

func newStore[S any](rule func() (Rule[S], error), rdb redis.UniversalClient, name string) (*store, error) {
	r, err := rule()
	if err != nil {
		return nil, err
	}
	if redisx.IsNil(rdb) {
		return nil, fmt.Errorf("%w: rdb is nil", limit.ErrInvalidArgument)
	}
	if err := Usable("the name", name); err != nil {
		return nil, err
	}
	return &store{r.Numbers, redisx.NewRunner(rdb), r.Script, r.Args, name}, nil
}

// one is a store of which one limit is used, that of its name.
type one struct{ *store }

// Allow is that of a limit.Limiter.
func (o one) Allow(ctx context.Context, n int64) (limit.Result, error) {
	return o.allow(ctx, o.name, n)
}

// Release is that of a limit.Releaser.
func (o one) Release(ctx context.Context, n int64) error { return o.release(ctx, o.name, n) }

// many is a store of which the limits of all keys are used.
type many struct{ *store }

// Allow is that of a limit.Keyed.
func (m many) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	if err := Usable("the key", key); err != nil {
		return limit.Result{}, err
	}
	return m.allow(ctx, m.name+":"+key, n)
}

// Release is that of a limit.KeyedReleaser.
func (m many) Release(ctx context.Context, key string, n int64) error {
	if err := Usable("the key", key); err != nil {
		return err
	}
	return m.release(ctx, m.name+":"+key, n)
}

func (s *store) allow(ctx context.Context, name string, n int64) (limit.Result, error) {
	r, _, err := s.lend(ctx, name, n)
	return r, err
}

func (s *store) lend(ctx context.Context, name string, n int64) (limit.Result, Answer, error) {
	if err := s.Check(ctx, n); err != nil {
		return limit.Result{}, Answer{}, err
	}
	a, err := s.within(ctx, name, n)
	if err != nil {
		return limit.Result{}, Answer{}, err
	}
	r := limit.Result{Name: name}
	s.fill(&r, &a)
	return r, a, nil
}

// release gives back permits. With the Place of an Answer they are those of its grant only.
func (s *store) release(ctx context.Context, name string, n int64, place ...any) error {
	if err := s.Check(ctx, n); err != nil {
		return err
	}
	_, err := s.within(ctx, name, -n, place...)
	return err
}

// within runs the script, and returns at the end of ctx at the latest.
func (s *store) within(ctx context.Context, name string, n int64, more ...any) (Answer, error) {
	return Within(ctx, name,
		func(ctx context.Context) (Answer, error) { return s.run(ctx, name, n, more...) },
		func(ctx context.Context, a Answer) {
			if a.Allowed && n > 0 {
				_, _ = s.run(ctx, name, -n, a.Place)
			}
		})
}

// An outcome is what has become of a call.
type outcome[T any] struct {
	answer T
	err    error
}

// Within calls Redis, and returns at the end of ctx at the latest. undo gives back what
// Redis has granted to a caller that has left. A caller whose context does not end has
// no goroutine.
func Within[T any](ctx context.Context, name string, call func(context.Context) (T, error),
	undo func(context.Context, T)) (none T, err error) {
	if ctx.Done() == nil {
		return call(ctx)
	}
	var settled atomic.Bool // the caller is answered, or has left: who sets it says which
	done := make(chan outcome[T], 1)
	go func() {
		answer, err := call(undated{ctx})
		if settled.CompareAndSwap(false, true) {
			done <- outcome[T]{answer, err}
		} else if err == nil {
			undo(context.WithoutCancel(ctx), answer)
		}
	}()
	select {
	case out := <-done:
		return out.answer, out.err
	case <-ctx.Done():
	}
	if settled.CompareAndSwap(false, true) {
		return none, fmt.Errorf("rratelimiter: %s: no reply from Redis: %w", name, ctx.Err())
	}
	out := <-done
	return out.answer, out.err
}

// undated is a context without its deadline. Its end stops waiting for a connection, but
// not for the reply to what was sent: what was taken must be known, to be given back.
type undated struct{ context.Context }

// Deadline returns none.
func (undated) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Key returns the key of a limit: its name is what a cluster places it by.
func Key(name, algorithm string) string { return "{" + name + "}:" + algorithm }

// run runs the script once. A lost reply is an error: it is not known whether the
// script ran, so it is not sent again.
func (s *store) run(ctx context.Context, name string, n int64, more ...any) (Answer, error) {
	call := redisx.Call{
		Script: s.script,
		Keys:   []any{Key(name, s.Algorithm)},
		Args:   append(append([]any{n}, s.args...), more...),
	}
	reply, _, err := s.runner.Run(ctx, &call)
	if err != nil {
		return Answer{}, fmt.Errorf("rratelimiter: %s: %w", name, err)
	}
	return AnswerOf(reply), nil
}

// AnswerOf returns the Answer in the reply of a Rule.Script.
func AnswerOf(reply redisx.Reply) Answer {
	place := reply.At(2)
	return Answer{
		Allowed: place > 0, Remaining: reply.At(0), Reset: reply.At(1), Place: place, Retry: reply.At(3),
	}
}

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

// OnRedis returns a limiter of one limit, shared by all that use its name. It calls rule once.
func OnRedis[S any](rule func() (Rule[S], error), rdb redis.UniversalClient, name string) (Lone, error) {
	s, err := newStore(rule, rdb, name, false)
	if err != nil {
		return nil, err
	}
	return loneStore{s}, nil
}

// OnRedisKeyed returns a limiter with a limit for each key, shared by all that use its name. It calls
// rule once.
func OnRedisKeyed[S any](rule func() (Rule[S], error), rdb redis.UniversalClient,
	name string) (Keyed, error) {
	s, err := newStore(rule, rdb, name, true)
	if err != nil {
		return nil, err
	}
	return keyedStore{s}, nil
}

// A store is the limits of one Rule in Redis: one, or one for each key.
type store struct {
	Numbers
	runner redisx.Runner
	script *redisx.Script
	argsAt func(now int64) []any // nil if args are for ever
	args   atomic.Pointer[[]any] // of the last call
	name   string
	keyed  bool
}

func newStore[S any](rule func() (Rule[S], error), rdb redis.UniversalClient, name string,
	keyed bool) (*store, error) {
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
	if r.ArgsAt != nil {
		r.Args = r.ArgsAt(time.Now().UnixMicro())
	}
	s := &store{
		Numbers: r.Numbers, runner: redisx.NewRunner(rdb), script: r.Script, argsAt: r.ArgsAt,
		name: name, keyed: keyed,
	}
	s.args.Store(&r.Args)
	return s, nil
}

// loneStore is a store of one limit.
type loneStore struct{ *store }

// Allow implements limit.Limiter.
func (s loneStore) Allow(ctx context.Context, n int64) (limit.Result, error) {
	r, _, err := s.Lend(ctx, "", n)
	return r, err
}

// Release implements limit.Releaser.
func (s loneStore) Release(ctx context.Context, n int64) error { return s.GiveBack(ctx, "", n) }

// Peek implements limit.Peeker.
func (s loneStore) Peek(ctx context.Context) (limit.Result, error) { return s.Look(ctx, "") }

// keyedStore is a store with a limit for each key.
type keyedStore struct{ *store }

// Allow implements limit.Keyed.
func (s keyedStore) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	r, _, err := s.Lend(ctx, key, n)
	return r, err
}

// Release implements limit.KeyedReleaser.
func (s keyedStore) Release(ctx context.Context, key string, n int64) error {
	return s.GiveBack(ctx, key, n)
}

// Peek implements limit.KeyedPeeker.
func (s keyedStore) Peek(ctx context.Context, key string) (limit.Result, error) {
	return s.Look(ctx, key)
}

// Lend implements Lender.
func (s *store) Lend(ctx context.Context, key string, n int64) (limit.Result, Decision, error) {
	return s.take(ctx, key, n, n)
}

// Look implements Form.
func (s *store) Look(ctx context.Context, key string) (limit.Result, error) {
	r, _, err := s.take(ctx, key, 1, 0)
	return r, err
}

// Debit implements Form.
func (s *store) Debit(ctx context.Context, key string, n int64) (limit.Result, error) {
	r, _, err := s.take(ctx, key, n, n, Charge)
	return r, err
}

// take takes n permits, charges them, or looks.
func (s *store) take(ctx context.Context, key string, n, take int64,
	stamp ...any) (limit.Result, Decision, error) {
	name, d, err := s.decide(ctx, key, n, take, stamp...)
	if err != nil {
		return limit.Result{}, Decision{}, err
	}
	r := limit.Result{Name: name}
	s.fill(&r, &d)
	return r, d, nil
}

// Return implements Lender.
func (s *store) Return(ctx context.Context, key string, n int64, d Decision) error {
	_, _, err := s.decide(ctx, key, n, -n, d.Stamp)
	return err
}

// GiveBack implements Form.
func (s *store) GiveBack(ctx context.Context, key string, n int64) error {
	_, _, err := s.decide(ctx, key, n, -n)
	return err
}

// decide checks the arguments of a call for n permits, and has Redis take them, give them back where take is
// negative, or look where it is 0. It returns at the end of ctx at the latest.
func (s *store) decide(ctx context.Context, key string, n, take int64,
	stamp ...any) (name string, d Decision, err error) {
	name = s.name
	if s.keyed {
		name += ":" + key
		err = Usable("the key", key)
	}
	charge := take > 0 && len(stamp) > 0
	if err == nil {
		err = s.Check(ctx, n, charge)
	}
	if err != nil {
		return name, Decision{}, err
	}
	d, err = Within(ctx, name,
		func(ctx context.Context) (Decision, error) { return s.run(ctx, name, take, stamp...) },
		func(ctx context.Context, d Decision) {
			if d.Allowed && take > 0 && !charge {
				_, _ = s.run(ctx, name, -take, d.Stamp)
			}
		})
	return name, d, err
}

// An outcome is the return values of a call of Redis.
type outcome[T any] struct {
	value T
	err   error
}

// Within calls Redis, and returns at the end of ctx at the latest. undo gives back permits that Redis granted
// to a caller that had left. If ctx never ends, Within starts no goroutine.
func Within[T any](ctx context.Context, name string, call func(context.Context) (T, error),
	undo func(context.Context, T)) (none T, err error) {
	out, left := redisx.Leave(ctx, context.Background(), redisx.Go, func(context.Context) outcome[T] {
		value, err := call(redisx.Undated{Context: ctx})
		return outcome[T]{value, err}
	}, func(late outcome[T]) {
		if late.err == nil {
			undo(context.WithoutCancel(ctx), late.value)
		}
	})
	if left {
		return none, fmt.Errorf("rratelimiter: %s: no reply from Redis: %w", name, ctx.Err())
	}
	return out.value, out.err
}

// Key returns the key of a limit. A cluster places it by the name.
func Key(name, algorithm string) string { return "{" + name + "}:" + algorithm }

// mostSends is how often a call is sent that needs the time of Redis. The third is for a period that ends
// between two.
const mostSends = 3

// run runs the script once. If the reply is lost, whether the script ran is unknown, so run returns an
// error instead of sending it again.
func (s *store) run(ctx context.Context, name string, n int64, stamp ...any) (Decision, error) {
	args := s.args.Load()
	for range mostSends {
		call := redisx.Call{
			Script: s.script,
			Keys:   []any{Key(name, s.Algorithm)},
			Args:   append(append([]any{n}, *args...), stamp...),
		}
		reply, _, err := s.runner.Run(ctx, &call)
		if err != nil {
			return Decision{}, fmt.Errorf("rratelimiter: %s: %w", name, err)
		}
		now := reply.At(4)
		if now == 0 || s.argsAt == nil {
			d := DecisionOf(reply)
			d.looked(n)
			return d, nil
		}
		of := s.argsAt(now)
		args = &of
		s.args.Store(args)
	}
	return Decision{}, fmt.Errorf("rratelimiter: %s: the clock of Redis has jumped %d times", name, mostSends)
}

// DecisionOf returns the Decision in the reply of a Rule.Script.
func DecisionOf(reply redisx.Reply) Decision {
	stamp := reply.At(2)
	return Decision{
		Allowed: stamp > 0, Remaining: reply.At(0), Reset: reply.At(1), Stamp: stamp, Retry: reply.At(3),
	}
}

package form

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// OnRedis returns the forms shared by all that use a name. It calls rule once.
func OnRedis[S any](rule func() (Rule[S], error), rdb redis.UniversalClient, name string) (Forms, error) {
	r, err := rule()
	if err != nil {
		return Forms{}, err
	}
	conn, err := Connect(rdb, name)
	if err != nil {
		return Forms{}, err
	}
	one, each := stores(r, conn, name)
	if conn.host == nil {
		return Forms{one, each}, nil
	}
	local := inMemory(r, []limit.Option{limit.WithMostKeys(mostLocals)})
	return Forms{hosted{one, local.One}, hosted{each, local.Each}}, nil
}

// OnConn returns the forms of OnRedis without a fallback.
func OnConn[S any](r Rule[S], conn Conn, name string) Forms {
	one, each := stores(r, conn, name)
	return Forms{one, each}
}

// A store is the limits of one Rule in Redis: one, or one for each key.
type store struct {
	Numbers
	Conn
	script *redisx.Script
	argsAt func(now int64) []any  // nil if args never change
	args   *atomic.Pointer[[]any] // of the last call
	name   string
	keyed  bool
	policy string // Result.Policy
}

func stores[S any](r Rule[S], conn Conn, name string) (one, each *store) {
	if r.ArgsAt != nil {
		r.Args = r.ArgsAt(time.Now().UnixMicro())
	}
	one = &store{
		Numbers: r.Numbers, Conn: conn, script: r.Script, argsAt: r.ArgsAt,
		args: new(atomic.Pointer[[]any]), name: name,
	}
	one.args.Store(&r.Args)
	of := *one
	of.keyed, of.policy = true, host.PolicyName(name)
	return one, &of
}

// Allow implements Form.
func (s *store) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	r, _, err := s.Lend(ctx, key, n)
	return r, err
}

// Lend implements Form.
func (s *store) Lend(ctx context.Context, key string, n int64) (limit.Result, Decision, error) {
	return s.take(ctx, key, n, n)
}

// Peek implements Form.
func (s *store) Peek(ctx context.Context, key string) (limit.Result, error) {
	r, _, err := s.take(ctx, key, 1, 0)
	return r, err
}

// Charge implements Form.
func (s *store) Charge(ctx context.Context, key string, n int64) (limit.Result, error) {
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
	r := limit.Result{Name: name, Policy: s.policy}
	s.fill(&r, &d)
	return r, d, nil
}

// Return implements Form.
func (s *store) Return(ctx context.Context, key string, n int64, d Decision) error {
	_, _, err := s.decide(ctx, key, n, -n, d.Stamp)
	return err
}

// Release implements Form.
func (s *store) Release(ctx context.Context, key string, n int64) error {
	_, _, err := s.decide(ctx, key, n, -n)
	return err
}

// check returns the name of the limit of a key, and an error if an argument is invalid or ctx has ended.
func (s *store) check(ctx context.Context, key string, n int64, charge bool) (name string, err error) {
	name = s.name
	if s.keyed {
		name += ":" + key
		err = Usable("the key", key)
	}
	if err == nil {
		err = s.Check(ctx, n, charge)
	}
	return name, err
}

// decide checks the arguments of a call for n permits, and runs the script, which takes permits, gives them
// back if take is negative, or looks if it is 0. It returns at the end of ctx at the latest.
func (s *store) decide(ctx context.Context, key string, n, take int64,
	stamp ...any) (name string, d Decision, err error) {
	charge := take > 0 && len(stamp) > 0
	name, err = s.check(ctx, key, n, charge)
	if err != nil {
		return name, Decision{}, err
	}
	if ctx.Done() == nil {
		d, err = s.run(ctx, name, take, stamp)
	} else {
		d, err = s.within(ctx, name, take, charge, stamp)
	}
	return name, d, err
}

// within is run for a ctx that may end. It is separate because captured variables would be allocated for
// every call.
func (s *store) within(ctx context.Context, name string, take int64, charge bool,
	stamp []any) (Decision, error) {
	return Within(ctx, s.Conn, name,
		func(ctx context.Context) (Decision, error) { return s.run(ctx, name, take, stamp) },
		func(ctx context.Context, d Decision) {
			if d.Allowed && take > 0 && !charge {
				_, _ = s.run(ctx, name, -take, []any{d.Stamp})
			}
		})
}

// Key returns the key of a limit. A cluster places it by the name.
func Key(name, algorithm string) string { return "{" + name + "}:" + algorithm }

// mostSends is how often a call is sent that needs the time of Redis. The third is for a period that ends
// between two.
const mostSends = 3

// A sent is a call with room for its words, so that all of it is one allocation.
type sent struct {
	call redisx.Call
	key  [1]any
	args [8]any
}

// run runs the script once. If the reply is lost, whether the script ran is unknown, so run returns an
// error instead of sending it again.
func (s *store) run(ctx context.Context, name string, n int64, stamp []any) (Decision, error) {
	args := s.args.Load()
	for range mostSends {
		var out sent
		out.key[0] = Key(name, s.Algorithm)
		out.call = redisx.Call{
			Script: s.script, Table: true, Keys: out.key[:],
			Args: append(append(append(out.args[:0], n), *args...), stamp...),
		}
		reply, _, err := s.Runner.Run(ctx, &out.call)
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

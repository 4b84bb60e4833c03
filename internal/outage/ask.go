package outage

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/host"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// Ask makes a call of Redis about a limiter that is not the Engine's, whose keys are in the slot of {name},
// and returns what decides instead if Redis has failed (host.Host).
func (g *Guard) Ask(
	ctx context.Context, name string, policy Policy, ask func(ctx context.Context) error,
) (host.Instead, error) {
	closed := g.engine.Context()
	if closed.Err() != nil {
		return host.Nothing, failure.ErrClosed
	}
	limiter := g.engine.Beside(name)
	var err error
	if policy.Bounded {
		err = g.askWithin(ctx, limiter, policy, ask)
	} else {
		err = ask(ctx)
	}
	switch {
	case err == nil, ctx.Err() != nil, !Failed(err), wrongType(err):
		return host.Nothing, err
	case closed.Err() != nil:
		return host.Nothing, failure.ErrClosed
	case policy.Fallback != ReturnError:
		g.fallbackDecided.Add(1)
	}
	if !redisx.Answered(err) { // a reply of Redis names the limiter already
		err = limiter.Named(err)
	}
	return host.Instead(policy.Fallback), err
}

// wrongType reports whether a key has a value of another type. That is not an outage, and a fallback would
// hide it. Before version 7, Redis names the script first.
func wrongType(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && strings.Contains(answer.Error(), "WRONGTYPE ")
}

// askWithin makes a call within a budget, unless the circuit of the limiter is open.
func (g *Guard) askWithin(
	ctx context.Context, limiter *engine.Limiter, policy Policy, ask func(ctx context.Context) error,
) error {
	if why := g.circuit(limiter).openCause(); why != nil {
		return failure.NotAsked(why)
	}
	began := time.Now()
	asked := engine.Want{Budget: policy.budgetFor(ctx)}
	within, cancel := context.WithTimeout(ctx, asked.Budget)
	defer cancel()
	err := ask(within)
	if within.Err() != nil && ctx.Err() == nil && Failed(err) {
		err = failure.Silent(asked.Budget, nil)
	}
	if ctx.Err() == nil || !Failed(err) {
		call{guard: g, limiters: []*engine.Limiter{limiter}, policy: policy}.noteOutcome(asked, began, err)
	}
	return err
}

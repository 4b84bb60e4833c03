package outage

import (
	"context"
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/ahead"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/limit"
)

// The results of a call when Redis has failed.
const (
	ReturnError = iota // the error
	Allow              // the permits
	Deny               // a refusal, at once
	Local              // what the share of this Client allows, after a wait as long as the call allows
)

const (
	// defaultBudget is long for a healthy Redis, and short for a waiting user.
	defaultBudget = 250 * time.Millisecond

	// leastBudget is the shortest silence that counts as a failure, unless the Client's own
	// budget is shorter. A caller whose context ends sooner gets its fallback, but says nothing
	// about Redis: otherwise one caller with a tiny deadline could open the circuit for all.
	leastBudget = 20 * time.Millisecond
)

// A Policy says what a call does when Redis fails.
type Policy struct {
	Fallback int
	Budget   time.Duration
	Bounded  bool // Budget is set

	Leasing ahead.Leasing // how permits are taken ahead, while Redis is well
}

// With returns the policy with another fallback.
func (p Policy) With(fallback int) Policy {
	p.Fallback = fallback
	// Without a budget, a silent Redis would never lead to the fallback.
	if !p.Bounded {
		p.Budget, p.Bounded = defaultBudget, true
	}
	return p
}

// Validate returns why the policy cannot be used, as an error made by refuse.
func (p Policy) Validate(refuse func(argument string, value any, bound string) error) error {
	switch {
	case p.Fallback < ReturnError || p.Fallback > Local:
		return refuse("fallback", p.Fallback, "be one of the Fallback constants")
	case p.Bounded && p.Budget < time.Millisecond:
		return refuse("budget", p.Budget, "be at least 1ms")
	}
	return nil
}

// budgetFor returns the budget of a call. It leaves a quarter of the context's
// time for the fallback.
func (p Policy) budgetFor(ctx context.Context) time.Duration {
	// With no time left, the fallback would be an error of ctx.
	if end, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, min(p.Budget, time.Until(end)/4*3))
	}
	return p.Budget
}

// Failed reports whether an error of an acquire says that Redis has failed. Every error
// does unless it is about the call, the limiter or the Client, so an unknown error opens
// the circuit.
func Failed(err error) bool {
	for _, of := range []error{
		nil, failure.ErrNotInitialized, limit.ErrPermitsExceedRate, limit.ErrInvalidArgument,
		failure.ErrBadState, failure.ErrClosed, failure.ErrNotReplicated,
	} {
		if errors.Is(err, of) {
			return false
		}
	}
	return true
}

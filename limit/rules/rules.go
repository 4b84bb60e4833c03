package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
)

// Rules decide about calls. They are safe for concurrent use.
type Rules struct {
	store   Store
	current atomic.Pointer[compiled]
	reload  sync.Mutex // held while current is exchanged
}

// compiled is a Set with its limiters. It does not change.
type compiled struct {
	set    *Set
	parts  [][]part // of each rule
	before map[definition]form.Lender
}

// A part is one or more limits of a rule that decide in one call.
type part struct {
	limiter  form.Lender
	policies []string
	lease    time.Duration // if it is not 0, permits come back when the call has ended
}

// New returns the Rules of a Set, whose limits are in a Store. If one of them is nil, or the
// Store cannot be used, that is a limit.ErrInvalidArgument.
func New(store Store, set *Set) (*Rules, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: store is nil", limit.ErrInvalidArgument)
	}
	r := &Rules{store: store}
	r.current.Store(&compiled{})
	if err := r.Reload(set); err != nil {
		return nil, err
	}
	return r, nil
}

// Reload has set decide from now on. Each call is decided by one Set, the old one or the new
// one. On an error nothing has changed: it is a limit.ErrInvalidArgument if set is nil.
//
// A limit keeps its state if nothing of it has changed: its name, that of its rule, what the
// rule goes by, the algorithm and its numbers. Another limit is a new one in memory. On Redis
// its keys stay: where it has its old name and algorithm, what is taken stays taken;
// a token bucket keeps what is left instead.
func (r *Rules) Reload(set *Set) error {
	if set == nil {
		return fmt.Errorf("%w: set is nil", limit.ErrInvalidArgument)
	}
	r.reload.Lock()
	defer r.reload.Unlock()
	next, err := r.compile(set, r.current.Load().before)
	if err != nil {
		return err
	}
	r.current.Store(next)
	return nil
}

// compile makes the limiters of a Set, but those that are there.
func (r *Rules) compile(set *Set, there map[definition]form.Lender) (*compiled, error) {
	c := &compiled{set, make([][]part, len(set.rules)), make(map[definition]form.Lender)}
	for i, rule := range set.rules {
		if together := r.store.together(rule.limits); together != nil {
			p := part{limiter: together}
			for _, d := range rule.limits {
				p.policies = append(p.policies, d.policy)
			}
			c.parts[i] = []part{p}
			continue
		}
		for _, d := range rule.limits {
			limiter := there[d]
			if limiter == nil {
				var err error
				if limiter, err = r.store.limiter(d); err != nil {
					return nil, err
				}
			}
			c.before[d] = limiter
			c.parts[i] = append(c.parts[i], part{limiter, []string{d.policy}, d.lease})
		}
	}
	return c, nil
}

// A Grant is what Rules have decided about a call.
type Grant struct {
	// Result is that of the limit that binds, with all that were asked in Each, if there
	// are several: in the order of the file, up to the first that refuses. Of those that
	// had allowed before, Remaining is what is left after they got their permits back.
	// Policy of a Result is the name of its limit, RULE or RULE/LIMIT, which visitors may
	// see. If a call has no limits, it is allowed, and there are no numbers.
	limit.Result

	holds []hold // what is to be given back when the call has ended
}

// A hold is permits that were taken.
type hold struct {
	part *part
	key  string
	n    int64

	answer form.Answer // of the limiter, for when it is given back
}

// Running reports whether the call holds permits as long as it runs, those of limits of
// concurrency. Then Done must be called when it has ended.
func (g *Grant) Running() bool { return len(g.holds) > 0 }

// Done gives back the permits of limits of concurrency: the call has ended. After an error
// they come back when their lease ends. Those whose lease is over are not given back: they
// may be those of others.
func (g *Grant) Done(ctx context.Context) error {
	holds := g.holds
	g.holds = nil
	return giveBack(ctx, holds)
}

func giveBack(ctx context.Context, holds []hold) error {
	var errs []error
	for _, h := range holds {
		errs = append(errs, h.part.limiter.Return(ctx, h.key, h.n, h.answer))
	}
	return errors.Join(errs...)
}

// Allow takes n permits, times the cost of each rule, from the limits of all rules that a
// call falls under, if all of them have them now. The rules of package limit go for it: a
// refusal is no error, and on an error or a refusal nothing is kept. A call that lacks what
// a rule goes by is a limit.ErrInvalidArgument.
//
// The limits are asked in the order of the file, and those behind a refusal are not asked.
// What was granted before it is given back, also if ctx has ended; the call waits up to 100 ms
// for that. Meanwhile others may be refused for it; if the Store fails then, it comes back when
// its time has passed. So put first what refuses most often. Limits of rratelimiter on Redis that are all
// of one rule, up to four, decide in one call and need no giving back.
func (r *Rules) Allow(ctx context.Context, call Call, n int64) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("rratelimiter: %w", err)
	}
	return r.allow(ctx, call, n)
}

// allow is Allow, and does not look at ctx before the rules are found.
func (r *Rules) allow(ctx context.Context, call Call, n int64) (Grant, error) {
	if n < 1 {
		return Grant{}, fmt.Errorf("%w: n is %d, must be at least 1", limit.ErrInvalidArgument, n)
	}
	now := r.current.Load()
	uses, err := now.set.uses(&call)
	if err != nil {
		return Grant{}, err
	}
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("rratelimiter: %w", err)
	}
	if call.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, call.Timeout)
		defer cancel()
	}
	var t taking
	for _, u := range uses {
		if n > math.MaxInt64/u.rule.cost {
			err = fmt.Errorf("%w: n is %d, times the cost %d", limit.ErrPermitsExceedRate, n, u.rule.cost)
		}
		for i := range now.parts[u.rule.index] {
			if err == nil && !t.refused {
				err = t.take(ctx, hold{part: &now.parts[u.rule.index][i], key: u.key, n: n * u.rule.cost})
			}
		}
	}
	if err != nil || t.refused {
		t.undo(ctx)
	}
	if err != nil {
		return Grant{}, err
	}
	return t.grant(), nil
}

// A taking is what one call has come to.
type taking struct {
	holds   []hold
	each    []limit.Result
	refused bool
}

// take asks one part.
func (t *taking) take(ctx context.Context, h hold) error {
	result, answer, err := h.part.limiter.Lend(ctx, h.key, h.n)
	if err != nil {
		return err
	}
	one := []limit.Result{result}
	if result.Each != nil {
		one = result.Each
	}
	for i := range one {
		one[i].Policy = h.part.policies[i]
		if one[i].Name == "" {
			one[i].Name = one[i].Policy + ":" + h.key
		}
	}
	t.each = append(t.each, one...)
	if t.refused = !result.Allowed; !t.refused {
		h.answer = answer
		t.holds = append(t.holds, h)
	}
	return nil
}

// undoing is how long a refused call waits until what it had been granted is back.
const undoing = 100 * time.Millisecond

// undo gives back what was taken. That is not broken off when the caller leaves, so that a
// process that stood still loses no permits. An error changes nothing for the call: the
// permits come back with time.
func (t *taking) undo(ctx context.Context) {
	if len(t.holds) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = giveBack(context.WithoutCancel(ctx), t.holds)
	}()
	timer := time.NewTimer(undoing)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	i := 0
	for _, h := range t.holds {
		for range h.part.policies {
			one := &t.each[i]
			one.Remaining = min(one.Limit, one.Remaining+h.n)
			i++
		}
	}
}

// grant returns the Grant of a call that was decided.
func (t *taking) grant() Grant {
	if len(t.each) == 0 {
		return Grant{Result: limit.Result{Allowed: true}}
	}
	binds := &t.each[0]
	for i := range t.each {
		if tighter(&t.each[i], binds, t.refused) {
			binds = &t.each[i]
		}
	}
	g := Grant{Result: *binds}
	g.Allowed = !t.refused
	if len(t.each) > 1 {
		g.Each = t.each
	}
	for _, h := range t.holds {
		if h.part.lease > 0 && !t.refused {
			g.holds = append(g.holds, h)
		}
	}
	return g
}

// tighter reports whether one limit binds rather than another, as limit.Result.Name says.
func tighter(r, other *limit.Result, refused bool) bool {
	switch {
	case !refused:
		return float64(r.Remaining)*float64(other.Limit) < float64(other.Remaining)*float64(r.Limit)
	case r.Allowed != other.Allowed:
		return !r.Allowed
	}
	return r.RetryAfter > other.RetryAfter
}

package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Rules decide about calls. They are safe for concurrent use.
type Rules struct {
	store   Store
	current atomic.Pointer[compiled]
	reload  sync.Mutex // held while Reload replaces current
}

// compiled is a Set with its limiters. It is immutable.
type compiled struct {
	set   *Set
	parts [][]part // by the index of a rule
	made  map[definition]limiters
}

// A part is one limit of a rule, or several that decide in one call.
type part struct {
	take     limiters
	policies []string
	purpose  purpose // of permits that are granted: spent, lent until the call ends, or an estimate
}

// New returns the Rules of a Set, with limits in a Store. A nil argument or an unusable Store is a
// limit.ErrInvalidArgument.
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

// Reload replaces the rules by set. Each call is decided by one Set, the old or the new one. On an error the
// rules stay as they were; a nil set is a limit.ErrInvalidArgument.
//
// A limit keeps its state if it is unchanged: its name and the name of its rule, the sources of the rule, the
// algorithm and its numbers. A changed limit starts over in memory. On Redis its keys stay: with its old name
// and algorithm, its permits stay taken; a token bucket keeps its tokens instead.
func (r *Rules) Reload(set *Set) error {
	if set == nil {
		return fmt.Errorf("%w: set is nil", limit.ErrInvalidArgument)
	}
	r.reload.Lock()
	defer r.reload.Unlock()
	next, err := r.compile(set, r.current.Load().made)
	if err != nil {
		return err
	}
	r.current.Store(next)
	return nil
}

// compile makes the limiters of a Set, except those already made.
func (r *Rules) compile(set *Set, made map[definition]limiters) (*compiled, error) {
	c := &compiled{set, make([][]part, len(set.rules)), make(map[definition]limiters)}
	for i, rule := range set.rules {
		purpose := spent
		if rule.settle {
			purpose = estimate
		}
		if together := r.store.together(rule.limits); together != nil {
			p := part{take: together, purpose: purpose}
			for _, d := range rule.limits {
				p.policies = append(p.policies, d.policy)
			}
			c.parts[i] = []part{p}
			continue
		}
		for _, d := range rule.limits {
			limiter := made[d]
			if limiter == nil {
				var err error
				if limiter, err = r.store.limiter(d); err != nil {
					return nil, err
				}
			}
			c.made[d] = limiter
			p := part{limiter, []string{d.policy}, purpose}
			if d.lease > 0 {
				p.purpose = lent
			}
			c.parts[i] = append(c.parts[i], p)
		}
	}
	return c, nil
}

// A Grant is the decision of Rules about a call.
type Grant struct {
	// Result is the result of the limit that binds. If several limits were asked, Each has
	// the results of all: in the order of the file, up to the first refusal. Remaining of
	// the limits before a refusal includes the permits that they got back. Policy of a
	// Result is the name of its limit, RULE or RULE/LIMIT, which visitors may see. A call
	// without limits is allowed, without numbers.
	limit.Result

	loans        []*limit.Reservation // to cancel when the call has ended
	reservations []*limit.Reservation // of rules that settle
}

// A loan holds permits taken from a part.
type loan struct {
	part        *part
	n           int64
	reservation *limit.Reservation
}

// Running reports whether the call has permits of concurrency limits. If so, call Done when the call has
// ended.
func (g *Grant) Running() bool { return len(g.loans) > 0 }

// Done gives back the permits of concurrency limits when the call has ended. After an error they come back
// when their lease ends. Permits whose lease has ended are not given back, as another call may have them.
func (g *Grant) Done(ctx context.Context) error {
	loans := g.loans
	g.loans = nil
	return settle(ctx, loans, 0)
}

// settle settles reservations.
func settle(ctx context.Context, all []*limit.Reservation, actual int64) error {
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Settle(ctx, actual))
	}
	return errors.Join(errs...)
}

// Allow takes n permits, times the cost of each rule, from the limits of all rules that match a call, if
// all the permits are there now. It keeps the rules of package limit: a refusal is not an error, and on an
// error or a refusal nothing is kept. A call that lacks the source of a rule is a limit.ErrInvalidArgument.
//
// Allow asks the limits in the order of the file, up to the first refusal, and then gives back the permits
// that earlier limits granted, even if ctx has ended. It waits up to 100 ms for that. Meanwhile these
// limits may refuse other calls; if the Store fails, the permits come back with time. So put the limits
// that refuse most often first. If a rule has at most four limits, all of rratelimiter on Redis, they
// decide in one call.
func (r *Rules) Allow(ctx context.Context, call Call, n int64) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, fmt.Errorf("rratelimiter: %w", err)
	}
	return r.allow(func() context.Context { return ctx }, call, n)
}

// allow is Allow, but calls begin for the context of the limits when it has found the rules.
func (r *Rules) allow(begin func() context.Context, call Call, n int64) (Grant, error) {
	if n < 1 {
		return Grant{}, fmt.Errorf("%w: n is %d, must be at least 1", limit.ErrInvalidArgument, n)
	}
	now := r.current.Load()
	uses, err := now.set.uses(&call)
	if err != nil {
		return Grant{}, err
	}
	ctx := begin()
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
		t.left += len(now.parts[u.rule.index])
	}
	for _, u := range uses {
		if n > math.MaxInt64/u.rule.cost {
			err = fmt.Errorf("%w: n is %d, times the cost %d", limit.ErrPermitsExceedRate, n, u.rule.cost)
		}
		parts := now.parts[u.rule.index]
		for j := range parts {
			if err == nil && !t.refused {
				err = t.take(ctx, &parts[j], u.key, n*u.rule.cost)
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

// A taking is the progress of one call.
type taking struct {
	left    int // parts that were not asked yet
	loans   []loan
	each    []limit.Result
	refused bool
}

// take asks one part. Permits of the last one stay taken: no other can refuse.
func (t *taking) take(ctx context.Context, p *part, key string, n int64) error {
	t.left--
	purpose := p.purpose
	if purpose == spent && t.left > 0 {
		purpose = lent
	}
	reservation, result, err := p.take(ctx, key, n, purpose)
	if err != nil {
		return err
	}
	one := []limit.Result{result}
	if result.Each != nil {
		one = result.Each
	}
	for i := range one {
		one[i].Policy = p.policies[i]
		if one[i].Name == "" {
			one[i].Name = one[i].Policy + ":" + key
		}
	}
	t.each = append(slices.Grow(t.each, t.left+len(one)), one...)
	if t.refused = !result.Allowed; reservation != nil {
		t.loans = append(slices.Grow(t.loans, t.left+1), loan{p, n, reservation})
	}
	return nil
}

// undoing is how long a refused call waits while its permits go back.
const undoing = 100 * time.Millisecond

// undo returns the loans. It continues when the caller leaves, so that a suspended process loses no
// permits. It drops errors: the permits come back with time.
func (t *taking) undo(ctx context.Context) {
	loans := t.loans
	if len(loans) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, l := range loans {
			_ = l.reservation.Cancel(context.WithoutCancel(ctx))
		}
	}()
	timer := time.NewTimer(undoing)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	i := 0
	for _, l := range loans {
		for range l.part.policies {
			one := &t.each[i]
			one.Remaining = min(one.Limit, one.Remaining+l.n)
			i++
		}
	}
}

// grant returns the Grant of a decided call.
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
	for _, l := range t.loans {
		switch {
		case t.refused:
		case l.part.purpose == estimate:
			g.reservations = append(g.reservations, l.reservation)
		case l.part.purpose == lent:
			g.loans = append(g.loans, l.reservation)
		}
	}
	return g
}

// tighter reports whether r binds rather than other, as limit.Result.Name defines it.
func tighter(r, other *limit.Result, refused bool) bool {
	switch {
	case !refused:
		return float64(r.Remaining)*float64(other.Limit) < float64(other.Remaining)*float64(r.Limit)
	case r.Allowed != other.Allowed:
		return !r.Allowed
	}
	return r.RetryAfter > other.RetryAfter
}

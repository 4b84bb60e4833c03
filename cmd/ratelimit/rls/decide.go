package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/limit"
)

// An item is a descriptor of a request and the decision about it.
type item struct {
	match
	unlimited bool
	hits      int64
	explicit  bool // the descriptor has hits of its own
	negative  bool // the hits are given back

	result limit.Result
	over   bool
	err    error
}

// mostDescriptors is the most descriptors of a request.
const mostDescriptors = 100

// decide decides about all descriptors of a request, and measures how long that takes.
func (s *Service) decide(ctx context.Context, in *pb.RateLimitRequest) ([]item, error) {
	defer func(start time.Time) {
		s.meters.requests.Inc()
		s.meters.seconds.Observe(time.Since(start).Seconds())
	}(time.Now())
	c := s.current.Load()
	n := len(in.GetDescriptors())
	switch {
	case in.GetDomain() == "":
		return nil, badRequest("domain is empty")
	case n < 1 || n > mostDescriptors:
		return nil, badRequest(fmt.Sprintf("the number of descriptors is %d, must be 1 to %d", n,
			mostDescriptors))
	case c == nil:
		return nil, errNotLoaded
	}
	items := make([]item, n)
	d := c.domains[in.GetDomain()]
	if d == nil {
		s.meters.unknownDomains.Add(float64(n))
		return items, nil
	}
	if err := s.match(d, in, items); err != nil {
		return nil, err
	}
	s.ask(ctx, d, items)
	for i := range items {
		if items[i].err != nil {
			return nil, items[i].err
		}
		s.count(&items[i])
	}
	return items, nil
}

// match finds the limits of the descriptors, except for replaced ones.
func (s *Service) match(d *domain, in *pb.RateLimitRequest, items []item) error {
	var replaced []string
	for i, descriptor := range in.GetDescriptors() {
		it := &items[i]
		var err error
		if it.match, err = d.match(descriptor); err != nil {
			return err
		}
		it.hits = int64(max(in.GetHitsAddend(), 1))
		if h := descriptor.GetHitsAddend(); h != nil {
			it.explicit, it.hits = true, int64(min(h.GetValue(), 1<<40))
		}
		it.negative = descriptor.GetIsNegativeHits()
		if it.rule == nil {
			continue
		}
		replaced = append(replaced, it.rule.replaces...)
		if it.rule.open == nil && it.rule.rate > 0 && !it.rule.unlimited { // of an override
			if it.rule.open, err = s.openers.open(it.rule); err != nil {
				return err
			}
		}
	}
	for i := range items {
		it := &items[i]
		switch {
		case it.rule == nil:
		case it.rule.unlimited:
			it.unlimited = true
			s.metrics(it).hits.Add(float64(it.hits))
			s.metrics(it).within.Add(float64(it.hits))
			it.rule = nil
		case it.rule.label != "" && slices.Contains(replaced, it.rule.label):
			it.rule = nil
		}
	}
	return nil
}

// ask asks the limiters, each separately and concurrently. Those of a domain with all_or_none decide
// together, unless another one has refused: then they only look.
func (s *Service) ask(ctx context.Context, d *domain, items []item) {
	var each, together []*item
	for i := range items {
		it := &items[i]
		switch {
		case it.rule == nil:
		case d.allOrNone && s.joins(it):
			together = append(together, it)
		default:
			each = append(each, it)
		}
	}
	s.askEach(ctx, each, s.askOne)
	refuses := func(it *item) bool { return it.over && !it.rule.shadow && !s.quota(it) }
	switch {
	case slices.ContainsFunc(each, refuses):
		s.askEach(ctx, together, s.look)
	case len(together) > 0:
		s.askTogether(ctx, together)
	}
}

// askEach calls f for each item, concurrently.
func (*Service) askEach(ctx context.Context, items []*item, f func(context.Context, *item)) {
	var group sync.WaitGroup
	for _, it := range items[:max(len(items)-1, 0)] {
		group.Go(func() { f(ctx, it) })
	}
	if len(items) > 0 {
		f(ctx, items[len(items)-1])
	}
	group.Wait()
}

// joins reports whether an item is decided with others: it asks for permits, and can refuse the request.
func (s *Service) joins(it *item) bool {
	refuses := it.rule.open != nil && !it.rule.shadow && !s.quota(it)
	return refuses && !it.negative && it.hits > 0 && !it.charges()
}

// quota reports whether an item refuses the request only together with others.
func (s *Service) quota(it *item) bool { return it.rule != nil && (s.options.Quota || it.rule.quota) }

// look finds whether the hits of an item would be refused.
func (s *Service) look(ctx context.Context, it *item) {
	it.result, it.err = it.rule.open(it.key).Peek(ctx)
	it.over = it.err == nil && it.result.Remaining < it.hits
	it.fallBack(ctx, &s.openers.failures)
}

// charges reports whether the hits are taken whatever is left. A descriptor with its own hits reports a
// cost that has occurred: Envoy charges tokens this way at the end of a stream, and ignores the answer.
func (it *item) charges() bool { return it.explicit && it.hits > 0 && it.rule.charge }

// askOne asks the limiter of an item.
func (s *Service) askOne(ctx context.Context, it *item) {
	if it.rule.open == nil { // the rate is 0
		it.over = !it.negative
		if it.over { // there is no time at which a request would pass
			it.result.RetryAfter, it.result.ResetAfter = it.rule.interval, it.rule.interval
		}
		return
	}
	c := it.rule.open(it.key)
	switch {
	case it.hits == 0:
		it.result, it.err = c.Peek(ctx)
		it.over = it.err == nil && !it.result.Allowed
	case it.negative:
		it.giveBack(ctx, c, &s.lent, s.options.Budget)
	case it.explicit:
		it.spend(ctx, c, &s.lent)
	default:
		it.result, it.err = c.Allow(ctx, it.hits)
		it.over = it.err == nil && !it.result.Allowed
	}
	if errors.Is(it.err, limit.ErrPermitsExceedRate) {
		it.tooMany(ctx, c)
	}
	it.fallBack(ctx, &s.openers.failures)
}

// spend takes hits that may be given back. If they are to be charged, it takes them whatever is left.
func (it *item) spend(ctx context.Context, c counter, lent *lent) {
	var r *limit.Reservation
	r, it.result, it.err = c.TryReserve(ctx, it.hits)
	it.over = it.err == nil && !it.result.Allowed || errors.Is(it.err, limit.ErrPermitsExceedRate)
	switch {
	case it.over && it.charges():
		it.result, it.err = c.Charge(ctx, it.hits)
		it.over = it.err != nil || it.result.Debt > 0
	case r != nil:
		lent.add(it.counter(), it.hits, r)
	}
}

// counter returns the name of the counter of an item, within the Service.
func (it *item) counter() string {
	if it.rule.limiter != "" {
		return it.rule.algorithm + " " + it.rule.limiter
	}
	return it.rule.algorithm + " " + it.rule.domain.name + " " + it.key
}

// fallBack decides without Redis if the library has not.
func (it *item) fallBack(ctx context.Context, f *failures) {
	if !failed(it.err) || it.rule.fallback == fallbackError || ctx.Err() != nil {
		return
	}
	f.add(it.err)
	it.err = nil
	// A local limit has refused more hits than its share has, or than it can ever have.
	refused := it.rule.fallback == fallbackDeny || it.rule.fallback == fallbackLocal && it.over
	it.over = refused && !it.negative
	it.result = limit.Result{
		Allowed: !it.over, Limit: it.rule.rate, Interval: it.rule.interval, Degraded: true,
	}
}

// askTogether takes the hits of all items, or of none.
func (s *Service) askTogether(ctx context.Context, items []*item) {
	var limiters []*rratelimiter.RateLimiter
	var amounts []int64
	places := make([]int, len(items))
	tooMany := false
	for i, it := range items {
		l, ok := it.rule.open(it.key).(exactCounter)
		if !ok {
			continue // Parse refuses other algorithms beside all_or_none
		}
		named := func(other *rratelimiter.RateLimiter) bool { return other.Name() == l.Name() }
		places[i] = slices.IndexFunc(limiters, named)
		if places[i] < 0 {
			places[i] = len(limiters)
			limiters, amounts = append(limiters, l.RateLimiter), append(amounts, 0)
		}
		amounts[places[i]] = min(amounts[places[i]]+it.hits, form.MostPermits)
		tooMany = tooMany || it.rule.limiter == "" && amounts[places[i]] > it.rule.rate
	}
	var each []limit.Result
	err := limit.ErrPermitsExceedRate
	if !tooMany {
		each, err = s.takeAll(ctx, limiters, amounts)
	}
	within, cancel := context.WithTimeout(ctx, s.options.Budget) // of all looks together
	defer cancel()
	for i, it := range items {
		switch {
		case errors.Is(err, limit.ErrPermitsExceedRate):
			it.tooMany(within, it.rule.open(it.key))
			it.over = amounts[places[i]] > cmp.Or(it.result.Limit, it.rule.rate)
		case err != nil:
			it.err = err
		default:
			it.result = each[places[i]]
			it.over = !it.result.Allowed
		}
		it.fallBack(ctx, &s.openers.failures)
	}
}

// mostTogether is the most limiters of a Group.
const mostTogether = 8

// takeAll takes permits from all limiters, or from none, and returns the Result of each. More limiters than a
// Group has are reserved by several Groups at once, which give back what they got unless all have granted.
func (s *Service) takeAll(
	ctx context.Context, limiters []*rratelimiter.RateLimiter, amounts []int64,
) (each []limit.Result, err error) {
	group := func(from, to int) *rratelimiter.Group {
		return s.openers.client.All(limiters[from:to]...).Amounts(amounts[from:to]...)
	}
	if len(limiters) <= mostTogether {
		r, err := group(0, len(limiters)).Allow(ctx, 1)
		return r.Each, err
	}
	each = make([]limit.Result, len(limiters))
	made := make([]*limit.Reservation, (len(limiters)+mostTogether-1)/mostTogether)
	errs := make([]error, len(made))
	eachGroup := func(f func(i, from, to int)) {
		var calls sync.WaitGroup
		for i := range made {
			calls.Go(func() { f(i, i*mostTogether, min((i+1)*mostTogether, len(limiters))) })
		}
		calls.Wait()
	}
	eachGroup(func(i, from, to int) {
		var r limit.Result
		made[i], r, errs[i] = group(from, to).TryReserve(ctx, 1)
		copy(each[from:to], r.Each)
	})
	if !slices.Contains(made, nil) {
		return each, nil
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Budget)
	defer cancel()
	eachGroup(func(i, from, to int) {
		if made[i] == nil {
			return
		}
		if err := made[i].Settle(within, 0); err != nil {
			s.openers.failures.add(err)
			return
		}
		for j := from; j < to; j++ {
			each[j].Remaining = min(each[j].Remaining+amounts[j], each[j].Limit)
		}
	})
	return each, errors.Join(errs...)
}

// giveBack gives back the hits of an item, out of its own reservation if known, and reads what is then left.
func (it *item) giveBack(ctx context.Context, c counter, lent *lent, budget time.Duration) {
	if from := lent.take(it.counter(), it.hits); from != nil {
		within, cancel := context.WithTimeout(ctx, budget)
		defer cancel()
		it.err = from.reservation.Settle(within, from.n-it.hits)
	} else {
		it.err = c.Release(ctx, it.hits)
	}
	if it.err == nil {
		it.result, it.err = c.Peek(ctx)
	}
}

// tooMany refuses more hits than the limit can ever have, with the numbers of the limit.
func (it *item) tooMany(ctx context.Context, c counter) {
	it.result, it.err = c.Peek(ctx)
	it.result.Allowed, it.over = false, true
}

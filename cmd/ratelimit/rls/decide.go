package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/redisson-go/rratelimiter"
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

// decide decides about all descriptors of a request.
func (s *Service) decide(ctx context.Context, in *pb.RateLimitRequest) ([]item, error) {
	c := s.current.Load()
	n := len(in.GetDescriptors())
	switch {
	case in.GetDomain() == "":
		return nil, fmt.Errorf("%w: domain is empty", limit.ErrInvalidArgument)
	case n < 1 || n > mostDescriptors:
		return nil, fmt.Errorf("%w: the number of descriptors is %d, must be 1 to %d",
			limit.ErrInvalidArgument, n, mostDescriptors)
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

// ask asks the limiters: of a domain with all_or_none in one call, otherwise each separately and
// concurrently.
func (s *Service) ask(ctx context.Context, d *domain, items []item) {
	var each, together []*item
	for i := range items {
		it := &items[i]
		switch {
		case it.rule == nil:
		case d.allOrNone && it.joins():
			together = append(together, it)
		default:
			each = append(each, it)
		}
	}
	var group sync.WaitGroup
	if len(together) > 0 {
		group.Go(func() { s.askTogether(ctx, together) })
	}
	for _, it := range each[:max(len(each)-1, 0)] {
		group.Go(func() { s.askOne(ctx, it) })
	}
	if len(each) > 0 {
		s.askOne(ctx, each[len(each)-1])
	}
	group.Wait()
}

// joins reports whether an item is decided with others: it asks for permits, and can be refused.
func (it *item) joins() bool {
	return !it.negative && it.hits > 0 && it.rule.open != nil && !it.rule.shadow && !it.charges()
}

// charges reports whether the hits are taken whatever is left. A descriptor with its own hits reports a
// cost that has occurred: Envoy charges tokens this way at the end of a stream, and ignores the answer.
func (it *item) charges() bool { return it.explicit && it.hits > 0 && it.rule.charge }

// askOne asks the limiter of an item.
func (s *Service) askOne(ctx context.Context, it *item) {
	if it.rule.open == nil { // the rate is 0
		it.over = !it.negative
		return
	}
	c := it.rule.open(it.key)
	switch {
	case it.hits == 0:
		within, cancel := context.WithTimeout(ctx, s.options.Budget)
		defer cancel()
		it.result, it.err = c.Peek(within)
		it.over = it.err == nil && !it.result.Allowed
	case it.negative:
		it.giveBack(ctx, c, &s.lent, s.options.Budget)
	case it.explicit:
		it.spend(ctx, c, &s.lent, s.options.Budget)
	default:
		it.result, it.err = c.Allow(ctx, it.hits)
		it.over = it.err == nil && !it.result.Allowed
	}
	if errors.Is(it.err, limit.ErrPermitsExceedRate) {
		it.tooMany(ctx, c, s.options.Budget)
	}
	it.fallBack(ctx, &s.openers.failures)
}

// spend takes hits that may be given back. If they are to be charged, it takes them whatever is left.
func (it *item) spend(ctx context.Context, c counter, lent *lent, budget time.Duration) {
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var r *limit.Reservation
	r, it.result, it.err = c.TryReserve(within, it.hits)
	refused := it.err == nil && !it.result.Allowed || errors.Is(it.err, limit.ErrPermitsExceedRate)
	if refused && it.charges() {
		it.result, it.err = c.Charge(within, it.hits)
		it.over = it.err == nil && it.result.Debt > 0
		return
	}
	it.over = it.err == nil && refused
	if it.err == nil && !refused {
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
	// A local limit refuses more hits than it can ever have.
	refused := it.rule.fallback == fallbackDeny || it.rule.fallback == fallbackLocal && it.over
	it.over = refused && !it.negative && !it.charges()
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
		l, ok := it.rule.open(it.key).(*rratelimiter.RateLimiter)
		if !ok {
			continue // Parse refuses other algorithms beside all_or_none
		}
		named := func(other *rratelimiter.RateLimiter) bool { return other.Name() == l.Name() }
		places[i] = slices.IndexFunc(limiters, named)
		if places[i] < 0 {
			places[i] = len(limiters)
			limiters, amounts = append(limiters, l), append(amounts, 0)
		}
		amounts[places[i]] += it.hits
		tooMany = tooMany || it.rule.limiter == "" && amounts[places[i]] > it.rule.rate
	}
	var r limit.Result
	err := limit.ErrPermitsExceedRate
	if !tooMany {
		r, err = s.openers.client.All(limiters...).Amounts(amounts...).Allow(ctx, 1)
	}
	within, cancel := context.WithTimeout(ctx, s.options.Budget) // of all looks together
	defer cancel()
	for i, it := range items {
		switch {
		case errors.Is(err, limit.ErrPermitsExceedRate):
			it.tooMany(within, limiters[places[i]], s.options.Budget)
			it.over = amounts[places[i]] > cmp.Or(it.result.Limit, it.rule.rate)
		case err != nil:
			it.err = err
		case r.Each == nil:
			it.result, it.over = r, !r.Allowed
		default:
			it.result = r.Each[places[i]]
			it.over = !it.result.Allowed
		}
		it.fallBack(ctx, &s.openers.failures)
	}
}

// rules yields the rules of a node and of all below it.
func (n *node) rules() iter.Seq[*rule] {
	return func(yield func(*rule) bool) { n.each(yield) }
}

func (n *node) each(yield func(*rule) bool) bool {
	if n.rule != nil && !yield(n.rule) {
		return false
	}
	for _, child := range n.next {
		if !child.each(yield) {
			return false
		}
	}
	return true
}

// giveBack gives back the hits of an item, out of its own reservation if known, and reads what is then left.
func (it *item) giveBack(ctx context.Context, c counter, lent *lent, budget time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	if from := lent.take(it.counter(), it.hits); from != nil {
		it.err = from.reservation.Settle(ctx, from.n-it.hits)
	} else {
		it.err = c.Release(ctx, it.hits)
	}
	if it.err == nil {
		it.result, it.err = c.Peek(ctx)
	}
}

// tooMany refuses more hits than the limit can ever have, with the numbers of the limit.
func (it *item) tooMany(ctx context.Context, c counter, budget time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	it.result, it.err = c.Peek(ctx)
	it.result.Allowed, it.over = false, true
}

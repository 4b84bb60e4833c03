package concurrency

import "github.com/redisson-go/rratelimiter/internal/form"

// mostGrants bounds how many grants are out at once. The scripts may have to read them all, which blocks
// Redis for some ms at most.
const mostGrants = 2_000

// mostAtOnce bounds how many grants are allocated at once.
const mostAtOnce = 256

// A bound is the rule: how many permits are out at once, and for how long, in µs.
type bound struct{ most, lease int64 }

func boundOf(n form.Numbers) bound { return bound{n.Limit, n.Interval.Microseconds()} }

// A grant holds permits until the end of their lease.
type grant struct {
	next, prev *grant
	ends, n    int64  // µs; permits
	leased     bool   // belongs to a Lease, which gives it back
	in         *state // the state that lists it, nil if it is not out
}

// A state holds all grants that are out, in the order of their ends.
type state struct {
	first, last *grant
	grants, out int64  // the number of grants, and the sum of their permits
	spare       *grant // dropped grants, to be used again without an allocation
}

// take decides as take.lua does.
func (b bound) take(s *state, now, n, stamp int64, leased bool) (*grant, form.Decision) {
	s.settle(now, b.lease)
	d, g := form.Decision{Allowed: true}, (*grant)(nil)
	switch {
	case n < 0:
		s.give(-n, stamp)
	case n == 0 && b.most > s.out && s.grants < mostGrants: // one is there
	case n > 0 && n <= b.most-s.out && s.grants < mostGrants:
		g = s.fresh()
		g.ends, g.n, g.leased = now+b.lease, n, leased
		s.append(g)
	default:
		d.Allowed, d.Retry = false, b.back(s, max(n, 1))-now
	}
	if s.grants < mostGrants {
		d.Remaining = max(0, b.most-s.out)
	}
	if s.last != nil {
		d.Reset = s.last.ends - now
	}
	return g, d
}

// back returns when n permits will be there.
func (b bound) back(s *state, n int64) int64 {
	out, grants := s.out, s.grants
	g := s.first
	for ; g != s.last; g = g.next {
		out, grants = out-g.n, grants-1
		if n <= b.most-out && grants < mostGrants {
			break
		}
	}
	return g.ends
}

// keep restarts the lease of a grant, or gives it back (ends), and reports whether it was still out. A grant
// may belong to an earlier state: the state of an unused key is dropped as it is.
func (b bound) keep(s *state, now int64, g *grant, ends bool) bool {
	s.settle(now, b.lease)
	if g.in != s {
		return false
	}
	s.remove(g)
	if !ends {
		g.ends = now + b.lease
		s.append(g)
	}
	return true
}

// settle drops the grants that have ended. After the clock was set back, none lasts longer than a new one.
func (s *state) settle(now, lease int64) {
	for s.first != nil && s.first.ends <= now {
		s.drop(s.first)
	}
	for g := s.last; g != nil && g.ends > now+lease; g = g.prev {
		g.ends = now + lease
	}
}

// give gives back n permits without a Lease: those that end at stamp, and then the oldest first. The
// remaining grants then end no earlier than any caller expects.
func (s *state) give(n, stamp int64) {
	if stamp > 0 {
		n = s.giveIf(n, func(g *grant) bool { return g.ends == stamp })
	}
	s.giveIf(n, func(*grant) bool { return true })
}

// giveIf gives back n permits of the grants for which f returns true, and returns how many it has not found.
func (s *state) giveIf(n int64, f func(*grant) bool) int64 {
	for g := s.first; g != nil && n > 0; {
		next := g.next
		switch {
		case g.leased || !f(g):
		case g.n > n:
			g.n, s.out, n = g.n-n, s.out-n, 0
		default:
			n -= g.n
			s.drop(g)
		}
		g = next
	}
	return n
}

// drop removes a grant, and keeps it for another use unless a Lease points to it.
func (s *state) drop(g *grant) {
	s.remove(g)
	if !g.leased {
		g.next, s.spare = s.spare, g
	}
}

// fresh returns a grant. If none is spare it allocates as many as are out, so that a busy limit seldom
// allocates.
func (s *state) fresh() *grant {
	if s.spare == nil {
		more := make([]grant, min(s.grants+1, mostAtOnce))
		for i := range more {
			more[i].next, s.spare = s.spare, &more[i]
		}
	}
	g := s.spare
	s.spare = g.next
	return g
}

func (s *state) append(g *grant) {
	g.prev, g.next, g.in = s.last, nil, s
	if s.last == nil {
		s.first = g
	} else {
		s.last.next = g
	}
	s.last = g
	s.grants++
	s.out += g.n
}

func (s *state) remove(g *grant) {
	if g.prev == nil {
		s.first = g.next
	} else {
		g.prev.next = g.next
	}
	if g.next == nil {
		s.last = g.prev
	} else {
		g.next.prev = g.prev
	}
	g.in = nil
	s.grants--
	s.out -= g.n
}

package concurrency

import "github.com/redisson-go/rratelimiter/internal/form"

// mostGrants is how many grants are out at once, at most. The scripts, which may have to
// read all, then keep Redis from its other work for some ms at most.
const mostGrants = 2_000

// mostAtOnce is how many grants are made at once, at most.
const mostAtOnce = 256

// A bound is the rule: how many permits are out at once, and for how long, in µs.
type bound struct{ most, lease int64 }

// A grant is permits that are out until the end of their lease.
type grant struct {
	next, prev *grant
	ends, n    int64  // µs; permits
	leased     bool   // it is that of a Lease, which gives it back
	in         *state // whose list it is in, nil if it is not out
}

// A state is all grants that are out, by their ends.
type state struct {
	first, last *grant
	grants, out int64  // how many, and the permits of all
	spare       *grant // grants to use again, so that they cost no memory
}

// take is take.lua.
func (b bound) take(s *state, now, n int64, leased bool) (*grant, form.Answer) {
	s.settle(now, b.lease)
	a, g := form.Answer{Allowed: true}, (*grant)(nil)
	switch {
	case n < 0:
		s.give(-n)
	case n <= b.most-s.out && s.grants < mostGrants:
		g = s.fresh()
		g.ends, g.n, g.leased = now+b.lease, n, leased
		s.append(g)
	default:
		a.Allowed, a.Retry = false, b.back(s, n)-now
	}
	if s.grants < mostGrants {
		a.Remaining = max(0, b.most-s.out)
	}
	if s.last != nil {
		a.Reset = s.last.ends - now
	}
	return g, a
}

// back returns when n permits are there.
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

// extend has a grant last from now on, and reports whether it was still out. The state of a
// key that nobody used is dropped as it is, so the grant may be one of an earlier state.
func (b bound) extend(s *state, now int64, g *grant) bool {
	s.settle(now, b.lease)
	if g.in != s {
		return false
	}
	s.remove(g)
	g.ends = now + b.lease
	s.append(g)
	return true
}

// release gives a grant back, and reports whether it was still out.
func (b bound) release(s *state, now int64, g *grant) bool {
	s.settle(now, b.lease)
	if g.in != s {
		return false
	}
	s.remove(g)
	return true
}

// settle drops the grants that are over. If the clock was set back, none lasts longer
// than a new one.
func (s *state) settle(now, lease int64) {
	for s.first != nil && s.first.ends <= now {
		s.drop(s.first)
	}
	for g := s.last; g != nil && g.ends > now+lease; g = g.prev {
		g.ends = now + lease
	}
}

// give gives back n permits that have no Lease, the oldest first: what is left then
// lasts longer than anybody counts on.
func (s *state) give(n int64) {
	for g := s.first; g != nil && n > 0; {
		next := g.next
		switch {
		case g.leased:
		case g.n > n:
			g.n, s.out, n = g.n-n, s.out-n, 0
		default:
			n -= g.n
			s.drop(g)
		}
		g = next
	}
}

// drop removes a grant, to be used again unless a Lease has it.
func (s *state) drop(g *grant) {
	s.remove(g)
	if !g.leased {
		g.next, s.spare = s.spare, g
	}
}

// fresh returns a grant. If there is none to use again it makes as many as are out, so
// that a limit which many use seldom asks for memory.
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

package redistest

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// rule says what happens to the next requests that match.
type rule struct {
	left  int // how many more, or less than 0 for no end
	match func(args []string) bool
	gate  chan struct{}       // request waits until this is closed; nil: reply is swallowed
	see   func(args []string) // it is told of all requests and changes nothing; the others are nil
}

// rules are those in force, oldest first.
type rules struct {
	armed atomic.Int32 // how many there are, so that without any none is looked for
	mu    sync.Mutex   // guards list, and what its rules count
	list  []*rule
}

// SwallowReply lets the next n EVALSHA or EVAL requests reach the server, waits
// until each is answered, throws the answer away and cuts the connection it
// came on: the client cannot know that it was carried out. An EVALSHA that is
// answered NOSCRIPT counts too; load the script before, to lose the real one.
func (p *Proxy) SwallowReply(n int) { p.SwallowReplyTo(n, isScript) }

// isScript reports whether args run a script.
func isScript(args []string) bool {
	return strings.EqualFold(args[0], "EVALSHA") || strings.EqualFold(args[0], "EVAL")
}

// SwallowReplyTo is SwallowReply for requests that match accepts. match sees
// each request as it comes in, one at a time, with at least one argument, and
// must not use the proxy. Replies before the swallowed one are delivered.
func (p *Proxy) SwallowReplyTo(n int, match func(args []string) bool) {
	p.rules.add(&rule{left: n, match: match})
}

// Hold keeps back every request that arrives from now on until release is
// called. They go out then even if their clients have given up and left. On one
// connection the order is kept; between connections there is none. For a late
// first copy that the second overtakes, see HoldNext.
func (p *Proxy) Hold() (release func()) {
	return p.HoldNext(-1, func([]string) bool { return true })
}

// HoldNext keeps back the next n requests that match accepts, and all that
// follows these on their connections, until release is called; n < 0 means all.
// Others pass: with n = 1 and Cut the client sends a second copy, which
// overtakes the first. For match see SwallowReplyTo. A request that is held may
// have its reply swallowed later by a rule of its own.
func (p *Proxy) HoldNext(n int, match func(args []string) bool) (release func()) {
	r := &rule{left: n, match: match, gate: make(chan struct{})}
	p.rules.add(r)
	return sync.OnceFunc(func() {
		p.rules.remove(r)
		close(r.gate)
	})
}

// Observe tells see of each request as it comes in, before the server gets it
// and also if it is held, until stop is called. Who has the answer to a request
// can be sure that see was told of it. see is called as match is by
// SwallowReplyTo, and may keep args.
func (p *Proxy) Observe(see func(args []string)) (stop func()) {
	r := &rule{left: -1, see: see}
	p.rules.add(r)
	return func() { p.rules.remove(r) }
}

func (s *rules) add(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.left != 0 {
		s.list = append(s.list, r)
	}
	s.armed.Store(int32(len(s.list)))
}

func (s *rules) remove(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(x *rule) bool { return x == r })
	s.armed.Store(int32(len(s.list)))
}

// judge returns what is to happen to q: which gate it must wait for, if any,
// and whether its reply is swallowed. At most one rule of each sort is used up.
func (s *rules) judge(q *request) (gate <-chan struct{}, swallowed bool) {
	if s.armed.Load() == 0 {
		return nil, false
	}
	args := q.strings()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.see != nil {
			r.see(args)
			continue
		}
		taken := swallowed
		if r.gate != nil {
			taken = gate != nil
		}
		if taken || !r.match(args) {
			continue
		}
		r.left--
		if r.gate != nil {
			gate = r.gate
		} else {
			swallowed = true
		}
	}
	s.list = slices.DeleteFunc(s.list, func(r *rule) bool { return r.left == 0 })
	s.armed.Store(int32(len(s.list)))
	return gate, swallowed
}

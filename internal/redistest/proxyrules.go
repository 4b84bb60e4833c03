package redistest

import (
	"slices"
	"strings"
	"sync"
)

// rule says what happens to the next requests that match.
type rule struct {
	left  int // how many more requests; below 0 for no end
	match func(args []string) bool
	gate  chan struct{} // a request waits until gate is closed; if gate is nil, its reply has this fate
	fate  fate
	see   func(args []string) // called for all requests; then match and gate are nil
}

// rules are the rules in force, oldest first.
type rules struct {
	mu   sync.Mutex // guards list, and left of its rules
	list []*rule
}

// SwallowReply lets the next n EVALSHA or EVAL requests reach the server, drops
// each reply and cuts its connection: the client cannot know that the script has
// run. An EVALSHA whose reply is NOSCRIPT also counts, so load the script before.
func (p *Proxy) SwallowReply(n int) { p.SwallowReplyTo(n, IsScript) }

// IsScript reports whether a command runs a script.
func IsScript(args []string) bool {
	return strings.EqualFold(args[0], "EVALSHA") || strings.EqualFold(args[0], "EVAL")
}

// SwallowReplyTo is SwallowReply for requests that match accepts. match is called
// for each request as it comes in, one at a time, with at least one argument. It
// must not use the proxy. Replies before the swallowed one are delivered.
func (p *Proxy) SwallowReplyTo(n int, match func(args []string) bool) {
	p.rules.add(&rule{left: n, match: match, fate: swallow})
}

// TearReply lets the next n EVALSHA or EVAL requests reach the server, sends half of
// each reply and cuts its connection.
func (p *Proxy) TearReply(n int) {
	p.rules.add(&rule{left: n, match: IsScript, fate: tear})
}

// Hold holds back every request that arrives from now on until release is called.
// Then they go out, in the order of each connection, even if their clients have left.
func (p *Proxy) Hold() (release func()) {
	return p.HoldNext(-1, func([]string) bool { return true })
}

// HoldNext holds back the next n requests that match accepts, and all that follow
// them on their connections, until release is called; n < 0 means all. Other requests
// pass: with n = 1 and Cut the client sends a second copy, which overtakes the
// first. For match see SwallowReplyTo. Another rule may swallow the reply of a
// request that is held.
func (p *Proxy) HoldNext(n int, match func(args []string) bool) (release func()) {
	r := &rule{left: n, match: match, gate: make(chan struct{})}
	p.rules.add(r)
	return sync.OnceFunc(func() {
		p.rules.remove(r)
		close(r.gate)
	})
}

// Observe calls see for each request as it comes in, also if it is held, until stop is
// called. SwallowReplyTo says how see is called; it may keep args.
func (p *Proxy) Observe(see func(args []string)) (stop func()) {
	r := &rule{left: -1, see: see}
	p.rules.add(r)
	return func() { p.rules.remove(r) }
}

// ObserveReplies calls see for each reply from now on, before the client gets it. Replies
// on several connections call it at the same time.
func (p *Proxy) ObserveReplies(see func()) { p.see.Store(&see) }

func (s *rules) add(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.left != 0 {
		s.list = append(s.list, r)
	}
}

func (s *rules) remove(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(x *rule) bool { return x == r })
}

// judge returns the gate that a request must wait for, if any, and the fate of its
// reply. It uses at most one rule of each sort.
func (s *rules) judge(args []string) (gate <-chan struct{}, f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.see != nil {
			r.see(args)
			continue
		}
		taken := f != deliver
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
			f = r.fate
		}
	}
	s.list = slices.DeleteFunc(s.list, func(r *rule) bool { return r.left == 0 })
	return gate, f
}

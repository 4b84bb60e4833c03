package engine

import (
	"slices"
	"sync"
)

// Servers is how many servers of one Redis are distinguished, because some may be down
// while the rest is well. A single server has number 0. A cluster has one number per 256
// of its 16,384 slots, which mostly live on one server; a Ring has one per shard.
const Servers = 64

// shards numbers the shards of a Ring in the order in which they are met.
type shards struct {
	mu    sync.Mutex
	addrs []string // guarded by mu
}

// number returns the number of a shard. The list is never shortened: a shard that
// comes back keeps its number, and with it the circuit that knows its state.
func (s *shards) number(addr string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.addrs, addr)
	if i < 0 {
		i = len(s.addrs)
		s.addrs = append(s.addrs, addr)
	}
	// More shards than Servers share numbers: a circuit then covers several of
	// them.
	return i % Servers
}

package engine

import (
	"slices"
	"sync"
)

// Servers is the number of servers of one Redis that are told apart, because some may be away while
// others are well. A single server has number 0. A cluster has one number per 256 of its 16,384
// slots, which mostly live on one server; a Ring has one per shard.
const Servers = 64

// shards are the addresses of a Ring, each with the number of its place.
type shards struct {
	mu    sync.Mutex
	addrs []string // guarded by mu
}

// number returns that of a shard.
func (s *shards) number(addr string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.addrs, addr)
	if i < 0 {
		i = len(s.addrs)
		s.addrs = append(s.addrs, addr)
	}
	return i % Servers
}

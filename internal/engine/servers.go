package engine

import (
	"slices"
	"sync"
)

// Servers is how many servers of one Redis are told apart, for some may be away while others
// are well. A single server is the first one. Of a cluster each stands for 256 of the 16,384 slots:
// neighbours live on the same server, but for those at an edge. Of a Ring each is a shard.
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

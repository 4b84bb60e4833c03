package request

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Config configures a Source.
type Config struct {
	ID      string                   // the scope of PerClient limits
	MapName func(name string) string // Redisson's NameMapper

	// Err is the result of each call, if it is not nil. No other field is read then.
	Err error

	Runner redisx.Runner

	// Clock returns the time to send. If it is nil, scripts use the time of the
	// Redis server.
	Clock func() time.Time

	// Layout packs the records of grants, with the mark of this Source. Plain is
	// the same format without a mark, for records that Repair rewrites: a mark
	// there would claim the permits of other clients.
	Layout, Plain *wire.Layout
}

// A Source is the Client that asks Redis: what its requests share. It is safe for concurrent use.
type Source struct {
	Config
	session session
	// requests is the number of the last request to any limiter. One counter for
	// all limiters keeps the numbers of each limiter growing even after a rename.
	requests      atomic.Int64
	groupSessions atomic.Int64 // names them
	mark          any          // the mark of Layout; a string, boxed for go-redis
	types         types
	shards        shards
}

// A session names the field of a limiter's hash that remembers the last request of a Source
// (scripts/parts/sessions.lua).
type session struct {
	name  string
	boxed any // name, as go-redis wants its arguments
}

// NewSource returns a Source.
func NewSource(config Config) *Source {
	name := wire.SessionPrefix + rand.Text()[:wire.SessionLetters]
	s := &Source{Config: config, session: session{name, name}}
	if config.Err == nil {
		s.mark = config.Layout.ClientMark()
	}
	return s
}

// now returns the time to send. It is empty if the script is to use the server's time.
func (s *Source) now() any {
	if s.Clock == nil {
		return ""
	}
	return s.Clock().UnixMilli()
}

// maxTypes is how many PerClient limiters a Source remembers: some 1 MB of
// names.
const maxTypes = 10_000

// types remembers the limiters that are PerClient. Without it, a Target that is made for
// one request would ask twice each time. When there are more than maxTypes, all are
// forgotten and found again: tracking unused ones would cost more.
type types struct {
	mu        sync.RWMutex
	perClient map[string]struct{} // by hash; guarded by mu
}

func (t *types) of(hash string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if _, ok := t.perClient[hash]; ok {
		return wire.PerClient
	}
	return wire.Overall
}

func (t *types) note(hash string, typ int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if typ != wire.PerClient {
		delete(t.perClient, hash)
		return
	}
	if t.perClient == nil || len(t.perClient) >= maxTypes {
		t.perClient = map[string]struct{}{}
	}
	t.perClient[hash] = struct{}{}
}

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

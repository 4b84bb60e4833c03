package form

import (
	"hash/maphash"
	"strconv"
	"sync"
	"time"
)

// shards is the number of shards for the states of many keys.
const shards = 64

// A shard has the states of some keys, or the only state. A state that was unused for Idle equals a
// new one, and may be dropped. A shard has two maps: the states used since its last turn, and those used
// before. A turn drops the older map, at least Idle after the last turn. This needs no goroutine, and no
// look at each key unless the Rule has Owes.
type shard[S any] struct {
	mu       sync.Mutex
	last     int64 // the time of the last call, in µs
	turned   int64 // the time of the last turn, in µs
	only     *S    // the state of a limiter of one limit, which has no maps
	most     int   // keys with a state of their own; 0 for all
	seed     maphash.Seed
	new, old map[string]*S
	_        [64]byte // keeps two locks out of one cache line
}

// shared is the prefix of the names under which keys beyond most share states.
const shared = "\x00"

// find returns the state of a key. The caller holds the lock.
func (s *shard[S]) find(key string) *S {
	if s.only != nil {
		return s.only
	}
	if state := s.new[key]; state != nil {
		return state
	}
	state := s.old[key]
	if state == nil && s.most > 0 && len(s.new)+len(s.old) >= s.most {
		key = shared + strconv.FormatUint(maphash.String(s.seed, key)%uint64(s.most), 36)
		if state = s.new[key]; state != nil {
			return state
		}
		state = s.old[key]
	}
	if state == nil {
		state = new(S)
	}
	if s.new == nil {
		s.new = make(map[string]*S)
	}
	s.new[key] = state
	return state
}

// tidy turns all shards if a turn is due. The caller holds no lock.
func (m *memory[S]) tidy(now int64) {
	if m.single() {
		return
	}
	due := m.due.Load()
	if now < due && now >= due-m.idle() || !m.due.CompareAndSwap(due, now+m.idle()) {
		return // not due, or another caller turns them
	}
	for i := range m.shards {
		m.turn(&m.shards[i])
	}
}

// idle returns Idle in µs.
func (m *memory[S]) idle() int64 { return int64(m.rule.Idle / time.Microsecond) }

// turn drops the older map of a shard, unless the last turn is too recent.
func (m *memory[S]) turn(s *shard[S]) {
	read := m.clock.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch passed := m.clock.settle(read, &s.last) - s.turned; {
	case passed < 0: // the clock was set back
		s.turned += passed
	case passed >= m.idle():
		s.turned += passed
		m.keepOwing(s)
		// The next call makes a small map: one with room for as many keys would delay it.
		s.old, s.new = s.new, nil
	}
}

// keepOwing moves the old states that still owe to the new map. The caller holds the lock.
func (m *memory[S]) keepOwing(s *shard[S]) {
	if m.rule.Owes == nil {
		return
	}
	for key, state := range s.old {
		if s.new[key] == nil && m.rule.Owes(state, s.turned) {
			s.find(key)
		}
	}
}

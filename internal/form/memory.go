package form

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/redisson-go/rratelimiter/limit"
)

// InMemory returns the forms in this process. It calls rule once.
func InMemory[S any](rule func() (Rule[S], error), opts []limit.Option) (Forms, error) {
	r, err := rule()
	if err != nil {
		return Forms{}, err
	}
	return inMemory(r, opts), nil
}

func inMemory[S any](r Rule[S], opts []limit.Option) Forms {
	one := newMemory(r, opts, 1)
	one.shards[0].only = new(S)
	return Forms{one, newMemory(r, opts, shards)}
}

// Local returns the form in memory that decides for f while Redis is down, nil if there is none.
func Local(f Form) Form {
	if h, ok := f.(hosted); ok {
		return h.local
	}
	return nil
}

// A memory holds the states of one Rule: of one limit, or of many keys.
type memory[S any] struct {
	rule   Rule[S]
	clock  clock
	seed   maphash.Seed
	due    atomic.Int64 // when the shards drop idle states next, in µs
	shards []shard[S]   // one for a limiter of one limit
}

func newMemory[S any](r Rule[S], opts []limit.Option, shards int) *memory[S] {
	m := &memory[S]{
		rule: r, clock: newClock(opts), seed: maphash.MakeSeed(), shards: make([]shard[S], shards),
	}
	for i := range m.shards {
		m.shards[i].seed = maphash.MakeSeed() // that of m gives the keys of a shard similar hashes
		m.shards[i].most = (max(limit.SettingsOf(opts).MostKeys, 0) + shards - 1) / shards
	}
	return m
}

// Allow implements Form.
func (m *memory[S]) Allow(ctx context.Context, key string, n int64) (r limit.Result, err error) {
	var d Decision
	err = m.lend(ctx, key, n, &r, &d)
	return r, err
}

// Lend implements Form.
func (m *memory[S]) Lend(ctx context.Context, key string, n int64) (r limit.Result, d Decision, err error) {
	err = m.lend(ctx, key, n, &r, &d)
	return r, d, err
}

// Peek implements Form.
func (m *memory[S]) Peek(ctx context.Context, key string) (r limit.Result, err error) {
	if err := m.check(ctx, key, 1, false); err != nil {
		return r, err
	}
	var d Decision
	m.take(key, 0, 0, &d)
	m.rule.fill(&r, &d)
	return r, nil
}

// Charge implements Form.
func (m *memory[S]) Charge(ctx context.Context, key string, n int64) (r limit.Result, err error) {
	if err := m.check(ctx, key, n, true); err != nil {
		return r, err
	}
	var d Decision
	m.take(key, n, Charge, &d)
	m.rule.fill(&r, &d)
	return r, nil
}

// Return implements Form.
func (m *memory[S]) Return(ctx context.Context, key string, n int64, d Decision) error {
	return m.Do(ctx, key, func(state *S, now int64) {
		if now < d.Stamp { // otherwise the permits have come back already
			m.rule.Take(state, now, -n, d.Stamp)
		}
	})
}

// Do implements Opened.
func (m *memory[S]) Do(ctx context.Context, key string, f func(state *S, now int64)) error {
	if err := m.check(ctx, key, 1, false); err != nil {
		return err
	}
	m.tidy(m.locked(key, f))
	return nil
}

// locked calls f under the lock of a shard, and returns the time.
func (m *memory[S]) locked(key string, f func(state *S, now int64)) (now int64) {
	s, read := m.shard(key), m.clock.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	now = m.clock.settle(read, &s.last)
	f(s.find(key), now)
	return now
}

func (m *memory[S]) lend(ctx context.Context, key string, n int64, r *limit.Result, d *Decision) error {
	if err := m.check(ctx, key, n, false); err != nil {
		return err
	}
	m.take(key, n, 0, d)
	m.rule.fill(r, d)
	return nil
}

// Release implements Form.
func (m *memory[S]) Release(ctx context.Context, key string, n int64) error {
	if err := m.check(ctx, key, n, false); err != nil {
		return err
	}
	m.take(key, -n, 0, new(Decision))
	return nil
}

func (m *memory[S]) check(ctx context.Context, key string, n int64, charge bool) error {
	if err := m.rule.Check(ctx, n, charge); err != nil || m.single() {
		return err
	}
	return Usable("the key", key)
}

// take does for the Rule what locked does for a function: calling a closure would take as long as the
// decision.
func (m *memory[S]) take(key string, n, stamp int64, d *Decision) {
	now, s := m.clock.read(), m.shard(key)
	s.mu.Lock()
	now = m.clock.settle(now, &s.last)
	*d = m.rule.Take(s.find(key), now, n, stamp)
	s.mu.Unlock()
	d.looked(n)
	d.Stamp = now + d.Reset
	m.tidy(now)
}

// single reports whether m has one limit, and so ignores keys.
func (m *memory[S]) single() bool { return len(m.shards) == 1 }

func (m *memory[S]) shard(key string) *shard[S] {
	if m.single() {
		return &m.shards[0]
	}
	return &m.shards[maphash.String(m.seed, key)%shards]
}

package form

import (
	"context"
	"sync"

	"github.com/redisson-go/rratelimiter/limit"
)

// InMemory returns a limiter of one limit, in this process. rule is called once.
func InMemory[S any](rule func() (Rule[S], error), opts []limit.Option) (Lone, error) {
	r, err := rule()
	if err != nil {
		return nil, err
	}
	return &memory[S]{rule: r, clock: newClock(opts)}, nil
}

// A memory is one limit.
type memory[S any] struct {
	rule  Rule[S]
	clock clock

	mu    sync.Mutex
	last  int64 // guarded by mu: the time of the last call, in µs
	state S     // guarded by mu
}

// Allow is that of a limit.Limiter.
func (m *memory[S]) Allow(ctx context.Context, n int64) (r limit.Result, err error) {
	var a Answer
	err = m.lend(ctx, n, &r, &a)
	return r, err
}

func (m *memory[S]) lend(ctx context.Context, n int64, r *limit.Result, a *Answer) error {
	if err := m.rule.Check(ctx, n); err != nil {
		return err
	}
	m.take(n, a)
	m.rule.fill(r, a)
	return nil
}

// Release is that of a limit.Releaser.
func (m *memory[S]) Release(ctx context.Context, n int64) error {
	if err := m.rule.Check(ctx, n); err != nil {
		return err
	}
	m.take(-n, new(Answer))
	return nil
}

func (m *memory[S]) take(n int64, a *Answer) {
	now := m.clock.read()
	m.mu.Lock()
	now = m.clock.settle(now, &m.last)
	*a = m.rule.Take(&m.state, now, n)
	m.mu.Unlock()
	a.Place = now + a.Reset
}

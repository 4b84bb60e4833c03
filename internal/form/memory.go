package form

import (
	"context"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// InMemory returns a limiter of one limit, in this process. rule is called once.
func InMemory[S any](rule func() (Rule[S], error), opts []limit.Option) (limit.Releaser, error) {
	r, err := rule()
	if err != nil {
		return nil, err
	}
	return &memory[S]{rule: r, now: Clock(opts)}, nil
}

// Clock returns the time in µs. It is that of the machine unless an option says other.
// That one begins at 1970 and is never set back.
func Clock(opts []limit.Option) func() int64 {
	if set := limit.SettingsOf(opts); set.Now != nil {
		return func() int64 { return set.Now().UnixMicro() }
	}
	start := time.Now()
	began := start.UnixMicro()
	return func() int64 { return began + int64(time.Since(start)/time.Microsecond) }
}

// A memory is one limit.
type memory[S any] struct {
	rule Rule[S]
	now  func() int64

	mu    sync.Mutex
	state S // guarded by mu
}

// Allow is that of a limit.Limiter.
func (m *memory[S]) Allow(ctx context.Context, n int64) (r limit.Result, err error) {
	if err := m.rule.Check(ctx, n); err != nil {
		return r, err
	}
	a := m.take(n)
	m.rule.fill(&r, &a)
	return r, nil
}

// Release is that of a limit.Releaser.
func (m *memory[S]) Release(ctx context.Context, n int64) error {
	if err := m.rule.Check(ctx, n); err != nil {
		return err
	}
	m.take(-n)
	return nil
}

// take asks the clock when it is its turn, so that time does not go back for the rule.
func (m *memory[S]) take(n int64) Answer {
	m.mu.Lock()
	defer m.mu.Unlock() // also if the clock of the caller panics
	return m.rule.Take(&m.state, m.now(), n)
}

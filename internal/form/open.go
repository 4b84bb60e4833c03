package form

import (
	"context"

	"github.com/redisson-go/rratelimiter/limit"
)

// An Opened is a limiter in memory, for an algorithm that does more than Take.
type Opened[S any] interface {
	// Do calls f with the state of a key and the time in µs, while nobody else has them.
	// A limiter of one limit ignores the key. Unless the key can be used and ctx goes on,
	// f is not called, and there is an error.
	Do(ctx context.Context, key string, f func(state *S, now int64)) error
}

// An Asker is a limiter on Redis, for an algorithm whose permits may be had later.
type Asker interface {
	// Ask runs the script, as Allow does. A limiter of one limit ignores the key.
	Ask(ctx context.Context, key string, n int64) (Answer, error)

	// Undo gives back what an Ask has taken, without its caller.
	Undo(key string, n int64, a Answer)
}

// Do is that of an Opened.
func (m *memory[S]) Do(ctx context.Context, _ string, f func(state *S, now int64)) error {
	if err := m.rule.Check(ctx, 1); err != nil {
		return err
	}
	read := m.clock.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state, m.clock.settle(read, &m.last))
	return nil
}

// Do is that of an Opened.
func (s *shelf[S]) Do(ctx context.Context, key string, f func(state *S, now int64)) error {
	if err := s.check(ctx, key, 1); err != nil {
		return err
	}
	s.tidy(s.with(key, f))
	return nil
}

// with calls f with the lock of a board, and returns the time.
func (s *shelf[S]) with(key string, f func(state *S, now int64)) (now int64) {
	b, read := s.board(key), s.clock.read()
	b.mu.Lock()
	defer b.mu.Unlock()
	now = s.clock.settle(read, &b.last)
	f(b.find(key), now)
	return now
}

// Ask is that of an Asker.
func (o one) Ask(ctx context.Context, _ string, n int64) (Answer, error) {
	return o.ask(ctx, o.name, n)
}

// Undo is that of an Asker.
func (o one) Undo(_ string, n int64, a Answer) { go o.undo(context.Background(), o.name, n, a) }

// Ask is that of an Asker.
func (m many) Ask(ctx context.Context, key string, n int64) (Answer, error) {
	if err := Usable("the key", key); err != nil {
		return Answer{}, err
	}
	return m.ask(ctx, m.name+":"+key, n)
}

// Undo is that of an Asker.
func (m many) Undo(key string, n int64, a Answer) {
	go m.undo(context.Background(), m.name+":"+key, n, a)
}

// ask is allow without a Result.
func (s *store) ask(ctx context.Context, name string, n int64) (Answer, error) {
	if err := s.Check(ctx, n); err != nil {
		return Answer{}, err
	}
	return s.within(ctx, name, n)
}

var (
	_ limit.Releaser      = one{}
	_ limit.KeyedReleaser = many{}
	_ Asker               = one{}
	_ Asker               = many{}
)

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

// A Lender is a limiter that takes back what it has granted, but not what has come back by
// itself since: others may have that by now. All forms are Lenders. A limiter of one limit
// ignores the key.
type Lender interface {
	// Lend is Allow. The Answer is for Return.
	Lend(ctx context.Context, key string, n int64) (limit.Result, Answer, error)

	// Return gives back what a Lend has granted. Errors are those of Release.
	Return(ctx context.Context, key string, n int64, a Answer) error
}

// A Lone is a limiter of one limit.
type Lone interface {
	limit.Releaser
	Lender
}

// A Keyed is a limiter with a limit for each key.
type Keyed interface {
	limit.KeyedReleaser
	Lender
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

// Lend is that of a Lender.
func (m *memory[S]) Lend(ctx context.Context, _ string, n int64) (r limit.Result, a Answer, err error) {
	err = m.lend(ctx, n, &r, &a)
	return r, a, err
}

// Return is that of a Lender.
func (m *memory[S]) Return(ctx context.Context, _ string, n int64, a Answer) error {
	return m.Do(ctx, "", func(state *S, now int64) { m.rule.giveBack(state, now, n, a) })
}

// Lend is that of a Lender.
func (s *shelf[S]) Lend(ctx context.Context, key string, n int64) (r limit.Result, a Answer, err error) {
	err = s.lend(ctx, key, n, &r, &a)
	return r, a, err
}

// Return is that of a Lender.
func (s *shelf[S]) Return(ctx context.Context, key string, n int64, a Answer) error {
	return s.Do(ctx, key, func(state *S, now int64) { s.rule.giveBack(state, now, n, a) })
}

// giveBack gives back what an Answer has granted, unless it is back by itself.
func (r *Rule[S]) giveBack(state *S, now, n int64, a Answer) {
	if now < a.Place {
		r.Take(state, now, -n)
	}
}

// Lend is that of a Lender.
func (o one) Lend(ctx context.Context, _ string, n int64) (limit.Result, Answer, error) {
	return o.lend(ctx, o.name, n)
}

// Return is that of a Lender.
func (o one) Return(ctx context.Context, _ string, n int64, a Answer) error {
	return o.release(ctx, o.name, n, a.Place)
}

// Lend is that of a Lender.
func (m many) Lend(ctx context.Context, key string, n int64) (limit.Result, Answer, error) {
	if err := Usable("the key", key); err != nil {
		return limit.Result{}, Answer{}, err
	}
	return m.lend(ctx, m.name+":"+key, n)
}

// Return is that of a Lender.
func (m many) Return(ctx context.Context, key string, n int64, a Answer) error {
	return m.release(ctx, m.name+":"+key, n, a.Place)
}

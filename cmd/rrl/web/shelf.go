package web

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A shelf keeps results for some time, and shares them among all who ask: one goroutine works for a
// result, however many wait for it.
type shelf[T any] struct {
	h     *Handler
	most  int // results that are kept
	fresh time.Duration

	mu   sync.Mutex
	kept map[string]*result[T] // guarded by mu
}

// A result is being worked for until done is closed.
type result[T any] struct {
	ended time.Time
	done  chan struct{}
	value T
	err   error
}

// The longest that anybody works for a result, and how long an error is kept.
const (
	longestWork  = time.Minute
	freshnessErr = time.Second
)

var (
	errBusy   = errors.New("too much is being looked for at the moment")
	errClosed = errors.New("the page is being closed")
)

func newShelf[T any](h *Handler, most int, fresh time.Duration) *shelf[T] {
	return &shelf[T]{h: h, most: most, fresh: fresh, kept: map[string]*result[T]{}}
}

// get returns the result for a key: one that is there and fresh, or that of work. The work goes on
// when ctx ends, for the next one who asks.
func (s *shelf[T]) get(ctx context.Context, key string, work func(context.Context) (T, error)) (T, error) {
	var none T
	r, err := s.result(key, work)
	if err != nil {
		return none, err
	}
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-s.h.ctx.Done():
		return none, errClosed
	}
}

func (s *shelf[T]) result(key string, work func(context.Context) (T, error)) (*result[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.kept[key]; r != nil && !s.stale(r) {
		return r, nil
	}
	for other, r := range s.kept {
		if s.stale(r) {
			delete(s.kept, other)
		}
	}
	if len(s.kept) >= s.most {
		return nil, errBusy
	}
	r := &result[T]{done: make(chan struct{})}
	if !s.h.goWith(func(ctx context.Context) {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(ctx, longestWork)
		defer cancel()
		r.value, r.err = work(ctx)
		r.ended = time.Now()
	}) {
		return nil, errClosed
	}
	s.kept[key] = r
	return r, nil
}

// stale reports whether a result is there that is too old.
func (s *shelf[T]) stale(r *result[T]) bool {
	select {
	case <-r.done:
	default:
		return false
	}
	if r.err != nil {
		return time.Since(r.ended) >= min(s.fresh, freshnessErr)
	}
	return time.Since(r.ended) >= s.fresh
}

// alone waits for the turn to search through the keys: one search at a time is enough for Redis.
func (h *Handler) alone(ctx context.Context) (end func(), err error) {
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

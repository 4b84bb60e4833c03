package web

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A cache keeps results for some time. One goroutine computes a result, however many viewers wait for it.
type cache[T any] struct {
	h     *Handler
	most  int // results
	fresh time.Duration

	mu   sync.Mutex
	kept map[string]*result[T] // guarded by mu
}

// A result is in progress until done is closed.
type result[T any] struct {
	ended time.Time
	done  chan struct{}
	value T
	err   error
}

const (
	longestWork  = time.Minute // for a result
	freshnessErr = time.Second // how long an error is kept
)

var (
	errBusy   = errors.New("too many searches are in progress")
	errClosed = errors.New("the page is closing")
)

func newCache[T any](h *Handler, most int, fresh time.Duration) *cache[T] {
	return &cache[T]{h: h, most: most, fresh: fresh, kept: map[string]*result[T]{}}
}

// get returns the result for a key: a fresh one, or that of work, which continues after the end of ctx
// for the next caller.
func (c *cache[T]) get(ctx context.Context, key string, work func(context.Context) (T, error)) (T, error) {
	var none T
	r, err := c.result(key, work)
	if err != nil {
		return none, err
	}
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-c.h.ctx.Done():
		return none, errClosed
	}
}

func (c *cache[T]) result(key string, work func(context.Context) (T, error)) (*result[T], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.kept[key]; r != nil && !c.stale(r) {
		return r, nil
	}
	for other, r := range c.kept {
		if c.stale(r) {
			delete(c.kept, other)
		}
	}
	if len(c.kept) >= c.most {
		return nil, errBusy
	}
	r := &result[T]{done: make(chan struct{})}
	if !c.h.goWith(func(ctx context.Context) {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(ctx, longestWork)
		defer cancel()
		r.value, r.err = work(ctx)
		r.ended = time.Now()
	}) {
		return nil, errClosed
	}
	c.kept[key] = r
	return r, nil
}

// stale reports whether a result is complete and too old.
func (c *cache[T]) stale(r *result[T]) bool {
	select {
	case <-r.done:
	default:
		return false
	}
	if r.err != nil {
		return time.Since(r.ended) >= min(c.fresh, freshnessErr)
	}
	return time.Since(r.ended) >= c.fresh
}

// patience is how long a viewer waits for a search through the keys.
const patience = 10 * time.Second

// search is get for a search through the keys. It waits until no other one is in progress, to spare Redis.
func search[T any](
	ctx context.Context, c *cache[T], key string, work func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.get(ctx, key, func(ctx context.Context) (none T, err error) {
		select {
		case c.h.turn <- struct{}{}:
			defer func() { <-c.h.turn }()
			return work(ctx)
		case <-ctx.Done():
			return none, ctx.Err()
		}
	})
}

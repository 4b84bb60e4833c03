package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// every is the time between two looks at a limiter.
const every = time.Second

// watches are the limiters with viewers. One goroutine reads each of them, once a second, for all its
// viewers, and ends with the first tick after the last viewer has left. So loading pages often does not
// read a limiter more often.
type watches struct {
	h *Handler

	mu      sync.Mutex
	by      map[string]*watch // by hash; guarded by mu
	streams int               // guarded by mu
}

// A watch is one limiter with viewers. watches.mu guards it.
type watch struct {
	hash    string
	viewers map[*viewer]bool
	last    map[string]*view // of the last look, by id of a client
}

// A viewer is a page, or a stream of one.
type viewer struct {
	of     *watch
	id     string     // of the client that it looks at; empty for the shared pair
	stream bool       // a stream, not a page
	views  chan *view // holds the newest view that was not taken yet
}

// join adds a viewer. It returns errBusy if there are too many viewers, or this limiter has viewers of too
// many clients.
func (s *watches) join(hash, id string, stream bool) (*viewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.by[hash]
	if s.h.ctx.Err() != nil {
		return nil, errClosed
	}
	if stream && s.streams >= mostViewers || w == nil && len(s.by) >= mostViewers {
		return nil, errBusy
	}
	if w == nil {
		w = &watch{hash: hash, viewers: map[*viewer]bool{}}
		if !s.h.goWith(func(ctx context.Context) { s.run(ctx, w) }) {
			return nil, errClosed
		}
		s.by[hash] = w
	}
	if ids := w.ids(); len(ids) >= inspect.MostClients && !ids[id] {
		return nil, errBusy
	}
	v := &viewer{of: w, id: id, stream: stream, views: make(chan *view, 1)}
	w.viewers[v] = true
	if stream {
		s.streams++
	}
	if last := w.last[id]; last != nil {
		v.views <- last
	}
	return v, nil
}

// leave removes a viewer.
func (s *watches) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(v.of.viewers, v)
	if v.stream {
		s.streams--
	}
}

// ids returns the clients that have viewers.
func (w *watch) ids() map[string]bool {
	ids := map[string]bool{}
	for v := range w.viewers {
		ids[v.id] = true
	}
	return ids
}

// run looks at a limiter until it has no more viewers.
func (s *watches) run(ctx context.Context, w *watch) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for before := (*inspect.Limiter)(nil); ; {
		ids := s.wanted(w)
		if len(ids) == 0 {
			return
		}
		before = s.look(ctx, w, ids, before)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// wanted returns the clients that have viewers. Without any the watch ends.
func (s *watches) wanted(w *watch) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := w.ids()
	if len(ids) == 0 {
		delete(s.by, w.hash)
	}
	return ids
}

// look reads the limiter and shows it to the viewers. It returns the limiter to compare the next look with.
func (s *watches) look(
	ctx context.Context, w *watch, ids map[string]bool, before *inspect.Limiter,
) *inspect.Limiter {
	var clients []string
	for id := range ids {
		if id != "" {
			clients = append(clients, id)
		}
	}
	l, err := s.h.read(ctx, w.hash, clients)
	views := make(map[string]*view, len(ids))
	for id := range ids {
		if err != nil {
			views[id] = s.h.failure(err)
		} else {
			views[id] = s.h.view(l, before, id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.last = views
	for v := range w.viewers {
		if view := views[v.id]; view != nil {
			v.show(view)
		}
	}
	if err != nil {
		return before
	}
	return l
}

// show hands over a view, in place of one that the viewer has not taken yet, so that it never waits.
// watches.mu is held, so there is one sender.
func (v *viewer) show(view *view) {
	select {
	case <-v.views:
	default:
	}
	v.views <- view
}

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

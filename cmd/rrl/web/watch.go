package web

import (
	"context"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// Watches are the limiters that are looked at. Each is read by one goroutine, once in Config.Every, for
// all its viewers; a second after the last one has left the goroutine ends. So however often pages are
// loaded, a limiter is not read more often.
type watches struct {
	h *Handler

	mu      sync.Mutex
	by      map[string]*watch // by hash; guarded by mu
	streams int               // guarded by mu
}

// A watch is one limiter that is looked at. watches.mu guards it.
type watch struct {
	hash    string
	viewers map[*viewer]bool
	last    map[string]*view // what the last look has found, by id of a client
	changes int              // of the limiter by a form: a look that began before is of no use
}

// A viewer is a page, or a stream of one.
type viewer struct {
	of     *watch
	id     string     // of the client that it looks at; empty for the shared pair
	stream bool       // it stays
	views  chan *view // holds the newest one that was not taken yet
}

// join adds a viewer. It returns errBusy if there are too many, of all limiters or of different clients
// of this one.
func (s *watches) join(hash, id string, stream bool) (*viewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.by[hash]
	if s.h.ctx.Err() != nil {
		return nil, errClosed
	}
	if stream && s.streams >= s.h.config.Viewers || w == nil && len(s.by) >= s.h.config.Viewers {
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

// forget drops what was found, for the limiter was changed. The next page waits for the next look.
func (s *watches) forget(hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.by[hash]; w != nil {
		w.last = nil
		w.changes++
	}
}

// ids returns which clients are looked at.
func (w *watch) ids() map[string]bool {
	ids := map[string]bool{}
	for v := range w.viewers {
		ids[v.id] = true
	}
	return ids
}

// run looks at a limiter until nobody else does.
func (s *watches) run(ctx context.Context, w *watch) {
	tick := time.NewTicker(s.h.config.Every)
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

// wanted returns which clients are looked at. Where none is, the watch ends.
func (s *watches) wanted(w *watch) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := w.ids()
	if len(ids) == 0 {
		delete(s.by, w.hash)
	}
	return ids
}

// look reads the limiter and shows it to the viewers. It returns what is to be compared with the next look.
func (s *watches) look(
	ctx context.Context, w *watch, ids map[string]bool, before *inspect.Limiter,
) *inspect.Limiter {
	var clients []string
	for id := range ids {
		if id != "" {
			clients = append(clients, id)
		}
	}
	s.mu.Lock()
	changes := w.changes
	s.mu.Unlock()
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
	if w.changes != changes {
		return before
	}
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

// show hands over a view. A viewer that has not taken the one before loses that; nobody waits for it. It
// is called under watches.mu, which makes it the only sender.
func (v *viewer) show(view *view) {
	select {
	case <-v.views:
	default:
	}
	v.views <- view
}

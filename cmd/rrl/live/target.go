package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// Shortest is the shortest time between two looks at a limiter.
const Shortest = time.Second

// patience is how long Redis may take to reply before the look counts as a failure.
const patience = 2 * time.Second

// A Target is a limiter to look at.
type Target struct {
	Name string // without a prefix
	Hash string // the key in Redis
	ID   string // the client of a PER_CLIENT limiter to look at; empty for all clients that have keys

	found []string // clients
	asked bool     // whether found is complete
}

// A look is the state of a limiter at one moment, or the error of reading it.
type look struct {
	target  int       // its index
	at      time.Time // of the reply, by the local clock
	limiter *inspect.Limiter
	clients int // of a PER_CLIENT limiter that have keys, after a search
	err     error
}

// search finds the clients of a PER_CLIENT limiter, once, in the names of keys. If it reports true, the
// limiter must be read again, with its clients.
func (t *Target) search(
	ctx context.Context, rdb redis.UniversalClient, l *inspect.Limiter,
) (found bool, err error) {
	if !l.Config.PerClient() || t.ID != "" || t.asked {
		return false, nil
	}
	// The search may take long, in small calls. To give up and try again would cost Redis more.
	t.found, err = inspect.Clients(ctx, rdb, t.Hash)
	t.asked = err == nil
	return t.asked, err
}

// read reads the limiter and its clients, with inspect.Few records altogether.
func (t *Target) read(ctx context.Context, rdb redis.UniversalClient) (*inspect.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ids := t.found[:min(len(t.found), inspect.MostClients)]
	if t.ID != "" {
		ids = []string{t.ID}
	}
	return inspect.Read(ctx, rdb, t.Hash, inspect.Few/(1+len(ids)), ids...)
}

// A Watch names the limiters to look at, and the time between two looks.
type Watch struct {
	Redis   redis.UniversalClient
	Where   string // names Redis
	Targets []*Target
	Every   time.Duration // at least Shortest
	Count   int           // looks at each; 0 for no end
}

// looks reads the targets until each had Count looks, or ctx ends. It calls see from one goroutine for each
// target. While paused is true it reads nothing.
func (w *Watch) looks(ctx context.Context, paused *atomic.Bool, see func(look)) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range w.Targets {
		all.Go(func() { w.looksAt(ctx, i, paused, see) })
	}
}

// looksAt reads one target. The starts of two looks are at least Every apart.
func (w *Watch) looksAt(ctx context.Context, i int, paused *atomic.Bool, see func(look)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; w.Count == 0 || n < w.Count; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(w.Every)
		if paused.Load() {
			continue
		}
		t := w.Targets[i]
		l, err := t.read(ctx, w.Redis)
		if err == nil {
			var found bool
			if found, err = t.search(ctx, w.Redis, l); found {
				continue // the next look reads them
			}
		}
		if ctx.Err() != nil {
			return
		}
		n++
		see(look{target: i, at: time.Now(), limiter: l, clients: len(t.found), err: err})
	}
}

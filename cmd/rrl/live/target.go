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

// patience is how long Redis may take to reply. What takes longer is shown as a failure.
const patience = 2 * time.Second

// A Target is a limiter to look at.
type Target struct {
	Name string // as its user knows it
	Hash string // as Redis knows it
	ID   string // the client of a PER_CLIENT limiter to look at; empty for those that have keys

	found []string // clients that were found
	asked bool     // clients were looked for
}

// A Look is the state of a limiter at one moment, or why it is not known.
type Look struct {
	Target  int       // its index
	At      time.Time // by the local clock, when Redis had replied
	Limiter *inspect.Limiter
	Clients int // of a PER_CLIENT limiter that have keys, as far as they were looked for
	Err     error
}

// look reads the limiter, in one round trip. The first time that it is PER_CLIENT, it also goes through
// the keys of Redis for the clients, for their names are nowhere else, and reads again.
func (t *Target) look(ctx context.Context, rdb redis.UniversalClient) (*inspect.Limiter, error) {
	l, err := t.read(ctx, rdb)
	if err != nil || !l.Config.PerClient() || t.ID != "" || t.asked {
		return l, err
	}
	// It may take long, in small calls. To give up and try again would cost Redis more.
	if t.found, err = inspect.Clients(ctx, rdb, t.Hash); err != nil {
		return nil, err
	}
	t.asked = true
	return t.read(ctx, rdb)
}

// read reads the limiter and its clients. All of them together have inspect.Few records.
func (t *Target) read(ctx context.Context, rdb redis.UniversalClient) (*inspect.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ids := t.found[:min(len(t.found), inspect.MostClients)]
	if t.ID != "" {
		ids = []string{t.ID}
	}
	return inspect.Read(ctx, rdb, t.Hash, inspect.Few/(1+len(ids)), ids...)
}

// Watch says what to look at, and how often.
type Watch struct {
	Redis   redis.UniversalClient
	Where   string // names Redis
	Targets []*Target
	Every   time.Duration // at least Shortest
	Count   int           // looks at each; 0 for no end
}

// Looks looks at the targets until there were Count looks at each, or ctx ends. It calls see from
// one goroutine for each target. It does not look while paused is true.
func (w *Watch) Looks(ctx context.Context, paused *atomic.Bool, see func(Look)) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range w.Targets {
		all.Go(func() { w.looksAt(ctx, i, paused, see) })
	}
}

// looksAt looks at one target. Between the starts of two looks there is no less than Every.
func (w *Watch) looksAt(ctx context.Context, i int, paused *atomic.Bool, see func(Look)) {
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
		l, err := t.look(ctx, w.Redis)
		if ctx.Err() != nil {
			return
		}
		n++
		see(Look{Target: i, At: time.Now(), Limiter: l, Clients: len(t.found), Err: err})
	}
}

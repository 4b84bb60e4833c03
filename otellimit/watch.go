package otellimit

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/redisson-go/rratelimiter"
)

// watched counts the watches of each Client.
type watched struct {
	mu      sync.Mutex
	clients map[*rratelimiter.Client]int // guarded by mu
}

// Watch adds the state of client to the metrics: the waiting requests (Client.Waiting), whether it
// works without Redis, and the unbooked permits (Client.Health). The state is read when metrics are
// collected, without calling Redis. The metrics are sums over all watched Clients. stop ends the
// watch, and may be called more than once.
func (o *Observer) Watch(client *rratelimiter.Client) (stop func()) {
	w := &o.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clients == nil {
		w.clients = map[*rratelimiter.Client]int{}
	}
	w.clients[client]++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.clients[client]--; w.clients[client] == 0 {
			delete(w.clients, client)
		}
	})
}

// collect measures the watched Clients. Without any there is no value, which differs from 0.
func (o *Observer) collect(_ context.Context, to metric.Observer) error {
	o.watched.mu.Lock()
	clients := slices.Collect(maps.Keys(o.watched.clients))
	o.watched.mu.Unlock()
	if len(clients) == 0 {
		return nil
	}
	var queued, degraded, unbooked int64
	for _, client := range clients {
		queued += int64(client.Waiting())
		health := client.Health()
		unbooked += health.Unbooked
		if health.Degraded {
			degraded++
		}
	}
	to.ObserveInt64(o.queued, queued)
	to.ObserveInt64(o.degradedClients, degraded)
	to.ObserveInt64(o.unbooked, unbooked)
	return nil
}

package pubsub

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pingEvery = 3 * time.Second
	silence   = 2 * pingEvery // after which a connection is lost

	shortestPause = 100 * time.Millisecond // before connecting again; at random down to half of it
	doublings     = 5                      // of the pause, at most
)

// A link is the connection of a group to one server, made again when it is lost.
type link struct {
	group     *group
	subscribe func(ctx context.Context, channels ...string) *redis.PubSub // of the server
	cancel    context.CancelFunc
	done      chan struct{} // closed when all is over
	kick      chan struct{} // there are tasks

	tasks map[string]struct{} // channels to tell the server of; guarded by hub.mu
}

// connect starts a link to server, nil for the client of the hub itself. It is
// called under hub.mu.
func (g *group) connect(server *redis.Client) *link {
	ctx, cancel := context.WithCancel(g.hub.ctx)
	l := &link{
		group:     g,
		subscribe: g.hub.rdb.Subscribe,
		cancel:    cancel,
		done:      make(chan struct{}),
		kick:      make(chan struct{}, 1),
		tasks:     map[string]struct{}{},
	}
	if server != nil {
		l.subscribe = server.Subscribe
	}
	go l.run(ctx)
	return l
}

// end closes the connection and waits for the goroutines.
func (l *link) end() {
	l.cancel()
	<-l.done
}

// run connects again and again. A connection is given up at its first error,
// though go-redis would mend it: it doesn't notice that a server has fallen
// silent, and it forgets the channel whose SUBSCRIBE it could not write.
func (l *link) run(ctx context.Context) {
	defer close(l.done)
	for fails := 0; ctx.Err() == nil; fails++ {
		if l.converse(ctx) {
			fails = 0
		}
		signal(l.group.kick) // the server may have lost its role
		pause(ctx, fails)
	}
}

// pause waits until it is time to connect again, for a time at random: the
// clients of a server that restarts should not all come at once.
func pause(ctx context.Context, fails int) {
	longest := shortestPause << min(fails, doublings)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// converse uses one connection until it is lost or ctx ends, and reports
// whether the server has said anything.
func (l *link) converse(ctx context.Context) (heard bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ps := l.subscribe(ctx) // connects when it is used
	l.begin()
	if l.tell(ctx, ps) != nil {
		_ = ps.Close()
		return false
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		defer cancel()
		heard = l.listen(ctx, ps)
	})
	l.speak(ctx, ps)
	_ = ps.Close()
	listening.Wait()
	return heard
}

// listen hears what the server says until there is an error, and reports
// whether there was anything.
func (l *link) listen(ctx context.Context, ps *redis.PubSub) (heard bool) {
	for {
		said, err := ps.ReceiveTimeout(ctx, silence)
		if err != nil {
			return heard
		}
		heard = true
		l.group.hear(l, said)
	}
}

// speak tells the server what to subscribe and pings it until there is an
// error or ctx ends.
func (l *link) speak(ctx context.Context, ps *redis.PubSub) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-l.kick:
			err = l.tell(ctx, ps)
		case <-tick.C:
			err = ps.Ping(ctx)
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// tell sends all there is to tell in two commands. Without channels, either
// would mean something else.
func (l *link) tell(ctx context.Context, ps *redis.PubSub) (err error) {
	subscribe, unsubscribe := l.take()
	if len(subscribe) > 0 {
		err = ps.Subscribe(ctx, subscribe...)
	}
	if err == nil && len(unsubscribe) > 0 {
		err = ps.Unsubscribe(ctx, unsubscribe...)
	}
	return err
}

// begin notes that the server, newly connected, is to be told everything.
func (l *link) begin() {
	l.group.hub.mu.Lock()
	defer l.group.hub.mu.Unlock()
	clear(l.tasks)
	l.group.forget(l)
	for channel := range l.group.topics {
		l.changed(channel)
	}
}

// changed notes that channel has got or lost its topic. It is called under
// hub.mu.
func (l *link) changed(channel string) {
	l.tasks[channel] = struct{}{}
	signal(l.kick)
}

// take returns what is to be told. That goes by how things are now, so that
// the order of what has happened since doesn't matter. A new topic of a channel
// that is still subscribed is told all the same: it needs a confirmation.
func (l *link) take() (subscribe, unsubscribe []string) {
	l.group.hub.mu.Lock()
	defer l.group.hub.mu.Unlock()
	for channel := range l.tasks {
		if l.group.topics[channel] == nil {
			unsubscribe = append(unsubscribe, channel)
		} else {
			subscribe = append(subscribe, channel)
		}
	}
	l.tasks = map[string]struct{}{} // an emptied map keeps its memory
	return subscribe, unsubscribe
}

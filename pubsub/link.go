package pubsub

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/pause"
)

const (
	// A connection counts as lost when the server has been silent for the time of two pings: one
	// reply may be late. More pings would find out sooner, but every process sends them to every
	// server.
	pingEvery = 3 * time.Second
	silence   = 2 * pingEvery

	// The pause before connecting again is 100 ms at first, soon enough after a short failure. It
	// doubles up to 5 times, to 3.2 s, which is rare enough for a server that is down for long. A
	// random part, up to half, is subtracted.
	shortestPause = 100 * time.Millisecond
	doublings     = 5
)

// A link is the connection of a group to one server. A lost connection is replaced.
type link struct {
	group     *group
	server    *redis.Client                                               // nil for the hub's own client
	subscribe func(ctx context.Context, channels ...string) *redis.PubSub // the server's method
	cancel    context.CancelFunc
	done      chan struct{} // closed when run has returned
	kick      chan struct{} // there are tasks

	// Guarded by hub.mu:
	tasks   map[string]struct{} // channels to subscribe or unsubscribe
	expects []sent
	apart   bool // each channel has its own commands
}

// connect starts a link to server, or to the hub's own client if server is nil. hub.mu is held.
func (g *group) connect(server *redis.Client) *link {
	ctx, cancel := context.WithCancel(g.hub.ctx)
	l := &link{
		group:     g,
		server:    server,
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

// run connects until ctx ends. It gives up a connection at the first error, instead of letting
// go-redis replace it, because go-redis does not notice a silent server and forgets a channel whose
// SUBSCRIBE it could not write.
func (l *link) run(ctx context.Context) {
	defer close(l.done)
	for fails := 0; ctx.Err() == nil; fails++ {
		if l.converse(ctx) {
			fails = 0
		} else if l.group.hub.reload != nil {
			l.group.hub.reload(ctx) // the node may be dead, and go-redis would try it for a minute
		}
		signal(l.group.kick) // the server may have lost its role
		backOff(ctx, fails)
	}
}

// backOff waits before the next attempt, for a random time: when a server restarts, its clients
// should not all connect at once.
func backOff(ctx context.Context, fails int) {
	longest := shortestPause << min(fails, doublings)
	_ = pause.For(ctx, longest/2+rand.N(longest/2))
}

// converse uses one connection until it is lost or ctx ends, and reports whether the server has
// sent anything.
func (l *link) converse(ctx context.Context) (received bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ps := l.subscribe(ctx) // connects on first use
	l.begin()
	if l.send(ctx, ps) != nil {
		_ = ps.Close()
		return false
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		defer cancel()
		received = l.listen(ctx, ps)
	})
	l.speak(ctx, ps)
	_ = ps.Close()
	listening.Wait()
	return received
}

// listen receives what the server sends until there is an error, and reports whether it received
// anything.
func (l *link) listen(ctx context.Context, ps *redis.PubSub) (received bool) {
	for {
		said, err := ps.ReceiveTimeout(ctx, silence)
		switch {
		case err == nil:
			l.group.hear(l, said)
		case redis.IsPermissionError(err): // the connection is still good
			l.group.denied(l, err)
		case elsewhere(err): // the slot is on another server
			l.group.refused(l)
		default:
			return received
		}
		received = true
	}
}

// speak sends subscriptions and pings until there is an error or ctx ends.
func (l *link) speak(ctx context.Context, ps *redis.PubSub) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-l.kick:
			err = l.send(ctx, ps)
		case <-tick.C:
			l.expect(sent{replies: 1})
			err = ps.Ping(ctx)
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// send sends the pending tasks in two commands. A command that has no channels is not sent:
// SUBSCRIBE would be an error, UNSUBSCRIBE would end all subscriptions. If the user has no right to
// one of the channels, the command subscribes to none, and the reply does not name it: after that,
// each channel gets its own command. So does each shard channel, because those of one command must
// have the same slot.
func (l *link) send(ctx context.Context, ps *redis.PubSub) error {
	subscribe, unsubscribe, apart := l.take()
	enter, leave := ps.Subscribe, ps.Unsubscribe
	if l.group.owner != nil {
		enter, leave = ps.SSubscribe, ps.SUnsubscribe
	}
	for channels := range commands(subscribe, apart) {
		l.expect(sent{channels: channels, replies: len(channels)})
		if err := enter(ctx, channels...); err != nil {
			return err
		}
	}
	for channels := range commands(unsubscribe, apart) {
		l.expect(sent{leaves: channels, replies: len(channels)})
		if err := leave(ctx, channels...); err != nil {
			return err
		}
	}
	return nil
}

// commands divides channels among commands.
func commands(channels []string, apart bool) iter.Seq[[]string] {
	if apart {
		return slices.Chunk(channels, 1)
	}
	return slices.Chunk(channels, max(len(channels), 1))
}

// A sent is a command that has not had all its replies yet.
type sent struct {
	channels []string // to subscribe
	leaves   []string // to unsubscribe
	replies  int      // to come
}

// expect notes that a command is about to be sent.
func (l *link) expect(command sent) {
	l.group.hub.mu.Lock()
	defer l.group.hub.mu.Unlock()
	l.expects = append(l.expects, command)
}

// replied notes a reply, one of several if the command was carried out. It returns the channels of
// the command: replies come in the order of commands. hub.mu is held.
func (l *link) replied(carriedOut bool) (channels []string) {
	if len(l.expects) == 0 {
		return nil
	}
	first := &l.expects[0]
	channels = first.channels
	if first.replies--; first.replies == 0 || !carriedOut {
		*first = sent{} // or its channels would stay in memory
		l.expects = l.expects[1:]
	}
	return channels
}

// begin prepares for a new connection: no subscription is confirmed, and every channel has to be
// subscribed.
func (l *link) begin() {
	l.group.hub.mu.Lock()
	defer l.group.hub.mu.Unlock()
	clear(l.tasks)
	l.expects, l.apart = nil, l.group.owner != nil
	l.group.forget(l)
	for channel, t := range l.group.topics {
		if l.carries(t) {
			l.changed(channel)
		}
	}
}

// changed schedules a new or ended subscription of channel. hub.mu is held.
func (l *link) changed(channel string) {
	l.tasks[channel] = struct{}{}
	signal(l.kick)
}

// take returns the channels to subscribe and unsubscribe. Only their present state counts, not the
// order of changes. A subscribed channel with a new topic is subscribed again, because the topic
// needs a confirmation.
func (l *link) take() (subscribe, unsubscribe []string, apart bool) {
	l.group.hub.mu.Lock()
	defer l.group.hub.mu.Unlock()
	for channel := range l.tasks {
		if t := l.group.topics[channel]; t == nil || !l.carries(t) {
			unsubscribe = append(unsubscribe, channel)
		} else {
			subscribe = append(subscribe, channel)
		}
	}
	l.tasks = map[string]struct{}{} // an emptied map keeps its memory
	return subscribe, unsubscribe, l.apart
}

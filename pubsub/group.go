package pubsub

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// lookEvery is how often a group looks up its servers. A master that loses its role keeps its
// connections, so only a lookup finds out. It asks one node of a cluster: once in 10 s is a small
// load, and soon enough after a failover, which itself takes seconds. A lookup also closes
// connections without channels.
const lookEvery = 10 * time.Second

// A group has the channels that are subscribed on the same servers.
type group struct {
	hub *Hub

	// each visits every server, and each channel is subscribed on all of them. A nil server stands
	// for the hub's own client.
	each func(ctx context.Context, see visit) error

	// owner returns the one server of a channel, where each is nil.
	owner func(ctx context.Context, channel string) (*redis.Client, error)

	// kick makes run look up the servers after a lost connection. find makes it look only for the
	// servers of the channels in seek.
	kick, find chan struct{}

	// Guarded by hub.mu:
	topics  map[string]*topic // by channel
	seek    map[string]struct{}
	links   map[*redis.Client]*link
	running bool // run has been started and will read topics again
}

// A topic is a channel with subscribers.
type topic struct {
	subscribers map[*subscriber]struct{}
	confirmed   map[*link]struct{} // the links whose servers have confirmed the subscription
	denied      error              // the last error of a server that does not allow it

	home     *redis.Client // the server of a channel that has only one, nil if unknown
	homeless int           // how often it lost its home since it was last confirmed
}

// announce wakes the subscribers that also want a signal when messages may have been missed.
func (t *topic) announce() {
	for s := range t.subscribers {
		if s.announce {
			signal(s.wake)
		}
	}
}

func newGroup(h *Hub, each func(context.Context, visit) error) *group {
	return &group{
		hub:    h,
		each:   each,
		kick:   make(chan struct{}, 1),
		find:   make(chan struct{}, 1),
		topics: map[string]*topic{},
		seek:   map[string]struct{}{},
		links:  map[*redis.Client]*link{},
	}
}

// add subscribes channel for s until cancel is called.
func (g *group) add(channel string, s *subscriber) (wake <-chan struct{}, cancel func()) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	if g.hub.ctx.Err() != nil {
		return s.wake, func() {}
	}
	t := g.topics[channel]
	if t == nil {
		t = &topic{subscribers: map[*subscriber]struct{}{}, confirmed: map[*link]struct{}{}}
		g.topics[channel] = t
		g.changed(channel, t)
		g.lookFor(channel)
	}
	t.subscribers[s] = struct{}{}
	if len(t.confirmed) > 0 && s.announce {
		signal(s.wake)
	}
	if !g.running {
		g.running = true
		g.hub.running.Go(func() { g.run(g.hub.ctx) })
	}
	return s.wake, func() { g.remove(channel, t, s) }
}

// remove undoes add. By now the channel may have a new topic, without s.
func (g *group) remove(channel string, t *topic, s *subscriber) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	delete(t.subscribers, s)
	if len(t.subscribers) > 0 || g.topics[channel] != t {
		return
	}
	delete(g.topics, channel)
	g.changed(channel, t)
}

// changed schedules a new or ended subscription of channel on each of its links.
func (g *group) changed(channel string, t *topic) {
	for _, l := range g.links {
		if l.carries(t) {
			l.changed(channel)
		}
	}
}

// await waits until the servers have confirmed the subscription of channel, if it has one.
// Hub.Confirmed says which errors it returns.
func (g *group) await(ctx context.Context, channel string) error {
	if has, _, _ := g.state(channel); !has {
		return g.hub.ctx.Err()
	}
	wake, cancel := g.add(channel, newSubscriber(true, nil))
	defer cancel()
	for {
		if _, confirmed, denied := g.state(channel); confirmed || denied != nil {
			return denied
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-g.hub.ctx.Done():
			return g.hub.ctx.Err()
		}
	}
}

// state reports whether channel has subscribers and whether all servers have confirmed its subscription, and
// returns why it is not allowed, if so.
func (g *group) state(channel string) (has, confirmed bool, denied error) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	t := g.topics[channel]
	if t == nil {
		return false, false, nil
	}
	for _, l := range g.links {
		if !l.carries(t) {
			continue
		}
		if _, confirmed = t.confirmed[l]; !confirmed {
			break
		}
	}
	if confirmed {
		return true, true, nil
	}
	return true, false, t.denied
}

// hear handles a confirmation or a message of a server.
func (g *group) hear(from *link, said any) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	switch said := said.(type) {
	case *redis.Pong:
		from.replied(true)
	case *redis.Subscription:
		if said.Kind == "sunsubscribe" && !from.leaves(said.Channel) { // the slot has left the server
			g.lost(from, said.Channel)
			return
		}
		from.replied(true)
		t := g.topics[said.Channel]
		if t == nil || strings.HasSuffix(said.Kind, "unsubscribe") {
			return
		}
		t.confirmed[from], t.denied, t.homeless = struct{}{}, nil, 0
		t.announce()
	case *redis.Message:
		t := g.topics[said.Channel]
		if t == nil {
			return
		}
		for s := range t.subscribers {
			if s.wants(said.Payload) {
				signal(s.wake)
			}
		}
	}
}

// denied handles the refusal of a command by a server. It is not retried on this connection:
// waiters without the subscription only wake up later.
func (g *group) denied(from *link, err error) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	channels := from.replied(false)
	for _, channel := range channels {
		switch t := g.topics[channel]; {
		case t == nil:
		case len(channels) == 1:
			t.denied = err
			t.announce()
		default: // the reply does not say which channel, so each is asked for alone
			from.apart = true
			from.changed(channel)
		}
	}
}

// run keeps a link to each server until it finds that there are no subscribers.
func (g *group) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	all := true
	for fails := 0; ; {
		servers, err := g.servers(ctx, all)
		all = true
		if err != nil { // keep the links as they are
			backOff(ctx, fails)
			fails++
			continue
		}
		fails = 0
		g.match(servers)
		if g.rest() {
			return
		}
		select {
		case <-g.find:
			all = false
		case <-g.kick:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// servers returns the servers that need a link: none if there are no subscribers. Unless all is
// set, it looks only for channels whose server is not known.
func (g *group) servers(ctx context.Context, all bool) (servers []*redis.Client, err error) {
	if g.idle() {
		return nil, nil
	}
	if g.owner != nil {
		return g.homes(ctx, all)
	}
	var mu sync.Mutex // go-redis visits each server in a goroutine of its own
	err = g.each(ctx, func(_ context.Context, server *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, server)
		return nil
	})
	return servers, err
}

// match starts the missing links to servers, and ends the links to all other servers.
func (g *group) match(servers []*redis.Client) {
	var ended []*link
	g.hub.mu.Lock()
	kept := make(map[*redis.Client]*link, len(servers))
	for _, server := range servers {
		if kept[server] = g.links[server]; kept[server] == nil {
			kept[server] = g.connect(server)
		}
	}
	for server, l := range g.links {
		if kept[server] == nil {
			ended = append(ended, l)
			g.forget(l)
		}
	}
	g.links = kept
	if len(ended) > 0 && g.owner == nil { // Confirmed may have been waiting for one of these only
		for _, t := range g.topics {
			t.announce()
		}
	}
	g.hub.mu.Unlock()
	for _, l := range ended {
		l.end()
	}
}

// forget drops the confirmations of a link. hub.mu is held.
func (g *group) forget(l *link) {
	for _, t := range g.topics {
		delete(t.confirmed, l)
	}
}

func (g *group) idle() bool {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	return len(g.topics) == 0
}

// rest reports whether run may end: there are no subscribers and all connections are closed. If run
// ended earlier, subscribers that come and go fast would open more than one connection to a server.
func (g *group) rest() bool {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	if len(g.topics)+len(g.links) > 0 {
		return false
	}
	g.running = false
	g.topics, g.seek = map[string]*topic{}, map[string]struct{}{} // an emptied map keeps its memory
	return true
}

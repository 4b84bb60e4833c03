package pubsub

import (
	"context"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
)

// carries reports whether a channel belongs on this link: a channel that has only one server
// belongs on the link to that server. hub.mu is held.
func (l *link) carries(t *topic) bool { return l.group.owner == nil || t.home == l.server }

// leaves reports whether the next reply may be that to an unsubscription of channel. A server also
// ends subscriptions without a command when a slot leaves it. If both happen to one channel, a
// later error may be matched with another command, whose channel is then subscribed again. hub.mu
// is held.
func (l *link) leaves(channel string) bool {
	return len(l.expects) > 0 && slices.Contains(l.expects[0].leaves, channel)
}

// elsewhere reports whether an error means that the server does not serve a slot.
func elsewhere(err error) bool {
	_, moved := redis.IsMovedError(err)
	return moved || redis.IsClusterDownError(err)
}

// refused handles a command whose slot is on another server. An unsubscription is then done,
// because the server forgot the channel when the slot left.
func (g *group) refused(from *link) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	for _, channel := range from.replied(false) {
		g.lost(from, channel)
	}
}

// lost handles a channel that its server does not have. A goroutine makes the client reload the
// nodes, and looks for the server of the channel after a pause: before the reload the client would
// name the same server. hub.mu is held.
func (g *group) lost(from *link, channel string) {
	t := g.topics[channel]
	if g.owner == nil || t == nil || t.home != from.server {
		return
	}
	t.home = nil
	fails := t.homeless
	t.homeless++
	g.hub.running.Go(func() {
		if g.hub.reload != nil {
			g.hub.reload(g.hub.ctx)
		}
		backOff(g.hub.ctx, fails)
		g.hub.mu.Lock()
		defer g.hub.mu.Unlock()
		if g.topics[channel] == t {
			g.lookFor(channel)
		}
	})
}

// lookFor makes run look for the server of a channel. hub.mu is held.
func (g *group) lookFor(channel string) {
	if g.owner != nil {
		g.seek[channel] = struct{}{}
		signal(g.find)
	}
}

// homes finds the servers of channels, and returns all servers that have channels. It looks for all
// channels, or for those of g.seek: a server whose last channel has gone keeps its link then.
func (g *group) homes(ctx context.Context, all bool) ([]*redis.Client, error) {
	channels, servers := g.sought(all)
	for _, channel := range channels {
		server, err := g.owner(ctx, channel)
		if err != nil {
			return nil, err
		}
		g.settle(channel, server)
		servers[server] = struct{}{}
	}
	return slices.Collect(maps.Keys(servers)), nil
}

// sought returns the channels to look for, and the servers that have a link already and keep it.
func (g *group) sought(all bool) (channels []string, servers map[*redis.Client]struct{}) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	servers = map[*redis.Client]struct{}{}
	if all {
		channels = slices.Collect(maps.Keys(g.topics))
	} else {
		channels = slices.Collect(maps.Keys(g.seek))
		for server := range g.links {
			servers[server] = struct{}{}
		}
	}
	g.seek = map[string]struct{}{} // an emptied map keeps its memory
	return channels, servers
}

// settle makes server the home of a channel. There may be no link to it yet.
func (g *group) settle(channel string, server *redis.Client) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	t := g.topics[channel]
	if t == nil || t.home == server {
		return
	}
	for _, home := range []*redis.Client{t.home, server} { // leaves one, enters the other
		if l := g.links[home]; l != nil {
			l.changed(channel)
		}
	}
	t.home = server
	clear(t.confirmed)
}

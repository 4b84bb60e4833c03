// Package pubsub tells waiting callers that something has changed in Redis. A
// Hub keeps one subscription per channel, shared and counted, and turns what
// is published there into wake-ups.
//
// A wake-up is a hint to look, never the news itself: several may arrive as
// one, and after a gap in the connection all who wait are told to look again.
package pubsub

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Hub shares the subscriptions of a process. It is safe for concurrent use.
//
// No method waits for the network or returns its errors: goroutines of the
// Hub connect, and connect again after a failure, with pauses that grow from
// 50 ms to 3 s. A connection on which the server says nothing for 6 s, not
// even to the pings sent every 3 s, counts as lost.
type Hub struct {
	rdb   redis.UniversalClient
	ctx   context.Context // ends with Close
	close context.CancelFunc

	messages *group // what is published
	events   *group // what servers tell of their own keys; may be the same

	mu      sync.Mutex     // guards what follows, the fields of groups and links that say so, and each signal
	closed  bool           // then nobody subscribes any more
	running sync.WaitGroup // goroutines of groups; Add under mu
}

// visit is what ForEachMaster and ForEachShard call for each server.
type visit = func(ctx context.Context, server *redis.Client) error

// New returns a Hub on rdb, which stays the caller's and must be open as long
// as the Hub is. It opens no connection and starts no goroutine before the
// first Subscribe or Events.
//
// A single server, also behind Sentinel, costs one connection. A cluster costs
// one for all channels of Subscribe, since what is published reaches each of
// its nodes, and one to each master for those of Events. A ring costs one to
// each shard that is up, since what is published on one stays there. Which
// masters or shards there are is looked up every 10 s and when a connection is
// lost. On a cluster, that asks one of its nodes.
func New(rdb redis.UniversalClient) *Hub {
	h := &Hub{rdb: rdb}
	h.ctx, h.close = context.WithCancel(context.Background())
	itself := func(ctx context.Context, see visit) error { return see(ctx, nil) }
	// Asked for by their methods, a client of the caller's that embeds one of
	// go-redis is known as well.
	switch rdb := rdb.(type) {
	case interface {
		ForEachMaster(context.Context, visit) error
	}:
		h.messages, h.events = newGroup(h, itself), newGroup(h, rdb.ForEachMaster)
	case interface {
		ForEachShard(context.Context, visit) error
	}:
		h.messages = newGroup(h, rdb.ForEachShard)
		h.events = h.messages
	default:
		h.messages = newGroup(h, itself)
		h.events = h.messages
	}
	return h
}

// Subscribe makes wake tell of each message that is published on channel. It
// has a capacity of one, so that what comes while a signal is unread adds
// none, and a subscriber that is slow delays nobody.
//
// There is also a signal when the server has confirmed the subscription, at
// once if it has before: what happened until then was not heard. And there is
// one after each reconnect, when messages may have been missed; on a ring, of
// any of its shards, and when one of them is gone. So whoever looks after every signal has seen all there is to see.
//
// cancel ends the subscription; calling it again does nothing. Then, and after
// Close, wake is neither signalled nor closed, but one signal from before may
// be left in it. The last cancel of a channel unsubscribes it, the last of all
// closes the connection and ends all goroutines, a little later in both cases.
func (h *Hub) Subscribe(channel string) (wake <-chan struct{}, cancel func()) {
	return h.messages.add(channel, &subscriber{wake: make(chan struct{}, 1), announce: true})
}

// Events is Subscribe for what servers tell on their own: the keyspace and
// keyevent notifications, which each server of a cluster or ring sends only
// about its own keys. It listens on every master, or shard.
//
// A message counts if its payload equals one of payloads; with none given, any
// does. Unlike Subscribe it signals nothing but messages: an event that comes
// before the server has confirmed the subscription, or while the connection
// is lost, stays unheard.
func (h *Hub) Events(channel string, payloads ...string) (events <-chan struct{}, cancel func()) {
	return h.events.add(channel, &subscriber{wake: make(chan struct{}, 1), payloads: slices.Clone(payloads)})
}

// Confirmed waits until each server has confirmed that it tells of the events
// of channel, for which there must be an Events. It answers an error when ctx
// ends, or the Hub is closed.
func (h *Hub) Confirmed(ctx context.Context, channel string) error {
	wake, cancel := h.events.add(channel, &subscriber{wake: make(chan struct{}, 1), announce: true})
	defer cancel()
	for !h.events.confirmed(channel) {
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.ctx.Done():
			return h.ctx.Err()
		}
	}
	return nil
}

// Close ends all subscriptions and waits for the goroutines of the Hub. That
// is at once, except while a server is being connected to that has accepted
// and says nothing: then it takes as long as the timeouts of rdb. Closing
// twice is allowed. Subscribe and Events return channels after it that are
// never signalled.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	clear(h.messages.topics)
	clear(h.events.topics)
	h.mu.Unlock()
	h.close()
	h.running.Wait()
}

// A subscriber is one call of Subscribe or Events.
type subscriber struct {
	wake     chan struct{}
	announce bool     // a confirmed subscription is a reason to look
	payloads []string // of the messages that count; empty for all
}

// wants reports whether a message with payload is for s.
func (s *subscriber) wants(payload string) bool {
	return len(s.payloads) == 0 || slices.Contains(s.payloads, payload)
}

// signal sends to c, which has a capacity of one, unless it is full: then
// whoever reads it next looks after what has happened now.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

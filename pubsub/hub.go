// Package pubsub wakes waiting callers when something has changed in Redis. A
// Hub keeps one subscription per channel, shared and counted, and turns the
// messages that are published there into wake-ups.
//
// A wake-up is a hint to look, never the news itself. Several may arrive as one,
// and after a gap in the connection all subscribers are told to look again.
//
// The package is the subscription hub of the rate limiter, but imports nothing
// of it. Any program that uses go-redis may use it on its own. Its API may change
// until v1.0.0, as that of package rratelimiter.
package pubsub

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Hub shares the subscriptions of a process. It is safe for concurrent use.
//
// Subscribe and Events never wait for the network and return none of its errors.
// Goroutines of the Hub connect, and connect again after a failure. The pauses
// between attempts grow from 50 ms to about 3 s. A connection counts as lost when the
// server has sent nothing for 6 s, although it is pinged every 3 s.
type Hub struct {
	rdb   redis.UniversalClient
	ctx   context.Context // ends with Close
	close context.CancelFunc

	// reload has a client of a cluster ask for its nodes; nil for other clients.
	reload func(ctx context.Context)

	messages *group // for Subscribe
	events   *group // for Events; may be the same group

	mu      sync.Mutex     // guards the fields below, those of groups and links that say so, and all signals
	closed  bool           // no new subscriptions
	running sync.WaitGroup // the goroutines of groups; added to under mu
}

// A visit is the function that ForEachMaster and ForEachShard call for each
// server.
type visit = func(ctx context.Context, server *redis.Client) error

// New returns a Hub on rdb. The caller keeps rdb, and closes it after the Hub. No
// connection is opened and no goroutine is started before the first Subscribe or
// Events.
//
// A single server, also behind Sentinel, costs one connection. A cluster costs
// one connection for all channels of Subscribe, because a message reaches every
// node, and one to each master for the channels of Events. A ring costs one to
// each shard that is up, because a message stays on its shard. The masters or
// shards are looked up every 10 s and when a connection is lost; on a cluster,
// that asks one of its nodes.
func New(rdb redis.UniversalClient) *Hub {
	h := &Hub{rdb: rdb}
	h.ctx, h.close = context.WithCancel(context.Background())
	if rdb, ok := rdb.(interface{ ReloadState(ctx context.Context) }); ok {
		h.reload = rdb.ReloadState
	}
	itself := func(ctx context.Context, see visit) error { return see(ctx, nil) }
	// The kind of client is known by its methods, not by its type: then it is also
	// known when a type of the caller's embeds a client of go-redis.
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

// Subscribe signals wake for each message that is published on channel. wake has
// a capacity of one: messages that arrive while a signal is unread add none, and
// a slow subscriber delays no other.
//
// wake is also signalled when messages may have been missed, so a subscriber that
// looks after every signal misses no change:
//   - when the server has confirmed the subscription, or at once if it had
//     confirmed it before;
//   - after each reconnect, on a ring of any of its shards;
//   - on a ring, when a shard is gone.
//
// cancel ends the subscription; calling it again does nothing. After cancel or
// Close, wake gets no signal and is not closed, but an unread signal may be left
// in it. The last cancel of a channel unsubscribes it. The last cancel of all
// closes the connections and ends the goroutines. Both happen in the background.
func (h *Hub) Subscribe(channel string) (wake <-chan struct{}, cancel func()) {
	return h.messages.add(channel, &subscriber{wake: make(chan struct{}, 1), announce: true})
}

// Events is Subscribe for the messages of the servers themselves: keyspace and
// keyevent notifications. Each server of a cluster or ring sends them only about
// its own keys, so Events listens on every master or shard.
//
// A message counts if its payload equals one of payloads, or if none are given.
// Unlike Subscribe, Events signals messages only: events are missed that come
// before the server has confirmed the subscription, or while the connection is
// lost.
func (h *Hub) Events(channel string, payloads ...string) (events <-chan struct{}, cancel func()) {
	return h.events.add(channel, &subscriber{wake: make(chan struct{}, 1), payloads: slices.Clone(payloads)})
}

// Confirmed waits until each server has confirmed the subscription of channel by
// Events, which must have been called. It returns an error if ctx ends first, the Hub
// is closed, or a server does not allow the subscription (a redis.Error, NOPERM).
func (h *Hub) Confirmed(ctx context.Context, channel string) error {
	wake, cancel := h.events.add(channel, &subscriber{wake: make(chan struct{}, 1), announce: true})
	defer cancel()
	for !h.events.confirmed(channel) {
		if err := h.events.denial(channel); err != nil {
			return err
		}
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

// Close ends all subscriptions and waits for the goroutines of the Hub. They end
// at once, unless one is connecting to a server that has accepted the connection
// and sends nothing: then Close takes as long as the timeouts of rdb. Closing
// twice is allowed. After Close, Subscribe and Events return channels that are
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
	announce bool     // wake also when messages may have been missed
	payloads []string // those of the messages that count; empty for all messages
}

// wants reports whether a message with this payload wakes s.
func (s *subscriber) wants(payload string) bool {
	return len(s.payloads) == 0 || slices.Contains(s.payloads, payload)
}

// signal sends to c, which has a capacity of one. If c is full, its reader is still
// to look, and will see what has happened now.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

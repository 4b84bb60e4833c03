// Package pubsub wakes waiting callers when messages are published in Redis. A Hub keeps one
// shared, counted subscription per channel, and turns its messages into signals. On a cluster it
// also subscribes to shard channels, whose messages stay on the servers of one slot.
//
// A signal is a hint to look, never the message itself. Several messages may become one signal, and
// after a lost connection all subscribers are signalled.
//
// The rate limiter uses this package, but the package does not depend on it: any program with
// go-redis may use it. Its API may change until v1.0.0, like that of package rratelimiter.
package pubsub

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Hub shares the subscriptions of a process. It is safe for concurrent use.
//
// Subscribe, Sharded and Events never wait for the network and return none of its errors.
// Goroutines of the Hub connect, and reconnect after a failure. The pauses between attempts grow
// from 50 ms to about 3 s. A connection counts as lost when the server, pinged every 3 s, has sent
// nothing for 6 s.
type Hub struct {
	rdb   redis.UniversalClient
	ctx   context.Context // ends with Close, under mu: no new subscriptions
	close context.CancelFunc

	// reload makes a cluster client ask for its nodes; nil for other clients.
	reload func(ctx context.Context)

	messages *group // for Subscribe
	events   *group // for Events; may be the same group
	shards   *group // for Sharded; that of Subscribe unless the client is of a cluster

	mu      sync.Mutex     // guards the fields below, those of groups and links that say so, and all signals
	running sync.WaitGroup // the goroutines of groups; Add is called under mu
}

// A visit is the function that ForEachMaster and ForEachShard call for each server.
type visit = func(ctx context.Context, server *redis.Client) error

// New returns a Hub on rdb. The caller keeps rdb, and closes it after the Hub. No connection is
// opened and no goroutine is started before the first Subscribe, Sharded or Events.
//
// A single server, also behind Sentinel, takes one connection. A cluster takes one connection for
// all channels of Subscribe, because a message reaches every node; one to each master for the
// channels of Events; and one to each master that has channels of Sharded. A ring takes one to each
// shard that is up, because a message stays on its shard. The masters or shards are looked up every
// 10 s and when a connection is lost; on a cluster, the lookup asks one node.
func New(rdb redis.UniversalClient) *Hub {
	h := &Hub{rdb: rdb}
	h.ctx, h.close = context.WithCancel(context.Background())
	if rdb, ok := rdb.(interface{ ReloadState(ctx context.Context) }); ok {
		h.reload = rdb.ReloadState
	}
	itself := func(ctx context.Context, see visit) error { return see(ctx, nil) }
	// The methods of the client show its kind; its type would not if the caller's type embeds a
	// go-redis client.
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
	h.shards = h.messages
	if rdb, ok := rdb.(interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}); ok {
		h.shards = newGroup(h, nil)
		h.shards.owner = rdb.MasterForKey
	}
	return h
}

// Subscribe signals wake for each message that is published on channel, by PUBLISH. A message
// counts if its payload equals one of payloads, or if none are given. wake has a capacity of one:
// messages that arrive while a signal is unread add none, and a slow subscriber delays no other.
//
// wake is also signalled when messages may have been missed, so a subscriber that checks after
// every signal misses no change:
//   - when the server has confirmed the subscription, or at once if it had
//     confirmed it before;
//   - after each reconnect, on a ring of any of its shards;
//   - on a ring, when a shard is gone.
//
// cancel ends the subscription; calling it again does nothing. After cancel or Close, wake gets no
// signal and is not closed, but an unread signal may be left in it. The last cancel of a channel
// unsubscribes it, in the background. The connections and goroutines end up to 10 s after the last
// cancel, so that frequent callers need not reconnect each time.
func (h *Hub) Subscribe(channel string, payloads ...string) (wake <-chan struct{}, cancel func()) {
	return h.messages.add(channel, newSubscriber(true, payloads))
}

// Sharded is Subscribe for a shard channel: for messages published by SPUBLISH (Redis 7). It
// subscribes on the master that has the slot of channel, and on another when the slot moves; wake
// is signalled when the new master has confirmed.
//
// Messages of PUBLISH do not count: only Subscribe receives them. Without a cluster,
// Sharded is Subscribe.
func (h *Hub) Sharded(channel string, payloads ...string) (wake <-chan struct{}, cancel func()) {
	return h.shards.add(channel, newSubscriber(true, payloads))
}

// Events is Subscribe for keyspace and keyevent notifications of the servers. Each server of a
// cluster or ring sends only those about its own keys, so Events listens on every master or
// shard.
//
// A message counts if its payload equals one of payloads, or if none are given. Unlike Subscribe,
// Events signals only messages: events before the server has confirmed the subscription, or while
// the connection is lost, are missed.
func (h *Hub) Events(channel string, payloads ...string) (events <-chan struct{}, cancel func()) {
	return h.events.add(channel, newSubscriber(false, payloads))
}

// Confirmed waits until the servers have confirmed all subscriptions of channel that Subscribe, Sharded and
// Events have made so far and that are not cancelled. It returns an error if ctx ends first, the Hub is
// closed, or a server does not allow the subscription (a redis.Error, NOPERM).
func (h *Hub) Confirmed(ctx context.Context, channel string) error {
	for _, g := range h.groups() {
		if err := g.await(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// groups returns the groups of h, which may be the same.
func (h *Hub) groups() []*group { return []*group{h.messages, h.events, h.shards} }

// Close ends all subscriptions and waits for the goroutines of the Hub. They end at once, unless
// one is connecting to a server that has accepted the connection and sends nothing: then Close
// takes as long as the timeouts of rdb. Close may be called twice. After Close, Subscribe,
// Sharded and Events return channels that are never signalled.
func (h *Hub) Close() {
	h.mu.Lock()
	h.close()
	for _, g := range h.groups() {
		clear(g.topics)
	}
	h.mu.Unlock()
	h.running.Wait()
}

// A subscriber is one call of Subscribe, Sharded or Events.
type subscriber struct {
	wake     chan struct{}
	announce bool     // also wake when messages may have been missed
	payloads []string // the payloads that count; empty for all
}

func newSubscriber(announce bool, payloads []string) *subscriber {
	return &subscriber{make(chan struct{}, 1), announce, slices.Clone(payloads)}
}

// wants reports whether a message with this payload wakes s.
func (s *subscriber) wants(payload string) bool {
	return len(s.payloads) == 0 || slices.Contains(s.payloads, payload)
}

// signal sends to c, which has a capacity of one. If c is full, its reader has not looked yet, and
// will also see this change.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

package rratelimiter

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A watch tells those who stand in line that something has changed. It is a
// hint: the line is asked for when its permits are due, with or without it.
type watch struct {
	queue   *queue
	changed <-chan struct{} // Go has given permits back, or set a rate
	events  <-chan struct{} // somebody else has, and the server tells it
	stop    []func()
}

// follow watches while there is a line. Guarded by queue.mu.
func (w *watch) follow() {
	switch waiting := !w.queue.line.empty(); {
	case waiting && w.stop == nil:
		c, k, typ := w.queue.client, w.queue.keys, w.queue.limiter.typ.Load()
		changed, stop := c.hub.Subscribe(k.channel)
		// Redisson sets the value when it gives permits back or keeps state, and
		// deletes it when it sets a rate.
		events, end := c.hub.Events(fmt.Sprintf("__keyspace@%d__:%s", c.database(), k.pairs[typ].value), "set", "del")
		w.changed, w.events, w.stop = changed, events, []func(){stop, end}
	case !waiting:
		w.end()
	}
}

func (w *watch) end() {
	for _, stop := range w.stop {
		stop()
	}
	w.changed, w.events, w.stop = nil, nil, nil
}

// database is the number of the one that the Client uses; a cluster has but
// one.
func (c *Client) database() int {
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		return rdb.Options().DB
	case *redis.Ring:
		return rdb.Options().DB
	}
	return 0
}

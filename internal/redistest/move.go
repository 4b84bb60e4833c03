package redistest

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Node returns the index in Servers of the master that has a key, as soon as there is one. Nodes that are
// stopped or frozen delay it little.
func (c *Cluster) Node(t TB, key string) (node int) {
	t.Helper()
	Until(t, "a node that has "+key, func() error {
		for i, s := range c.Servers {
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: time.Second / 5})
			err := rdb.Exists(context.Background(), key).Err()
			_ = rdb.Close()
			if err == nil {
				node = i
				return nil
			}
		}
		return errNotYet
	})
	return node
}

// Masters returns the nodes that are masters now.
func (c *Cluster) Masters() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Servers), func(s *Server) bool { return isMaster(s) != nil })
}

// A Move takes a slot from one master to another.
type Move struct {
	Src, Dst *Server

	t            TB
	cluster      *Cluster
	slot         int64
	srcID, dstID string
}

// Move begins to move the slot of key to dst, once all nodes agree on its owner.
func (c *Cluster) Move(t TB, key string, dst *Server) *Move {
	t.Helper()
	c.Agree(t)
	m := &Move{Src: c.Servers[c.Node(t, key)], Dst: dst, t: t, cluster: c}
	ctx := context.Background()
	m.slot = Must(m.Src.Admin().ClusterKeySlot(ctx, key).Result())(t)
	m.srcID = Must(m.Src.Admin().ClusterMyID(ctx).Result())(t)
	m.dstID = Must(dst.Admin().ClusterMyID(ctx).Result())(t)
	m.do(m.Dst, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.srcID)
	m.do(m.Src, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.dstID)
	return m
}

// Keys moves at most n keys, and returns how many it has moved.
func (m *Move) Keys(n int) int {
	m.t.Helper()
	keys := Must(m.Src.Admin().ClusterGetKeysInSlot(context.Background(), int(m.slot), n).Result())(m.t)
	for _, key := range keys {
		m.Key(key)
	}
	return len(keys)
}

// Key moves a key of the slot, if it exists.
func (m *Move) Key(key string) {
	m.t.Helper()
	host, port, _ := net.SplitHostPort(m.Dst.Addr)
	m.do(m.Src, "MIGRATE", host, port, key, 0, 5000)
}

// End ends the move. All keys must have been moved.
func (m *Move) End() {
	m.t.Helper()
	for _, s := range append([]*Server{m.Dst, m.Src}, m.cluster.Masters()...) {
		m.do(s, "CLUSTER", "SETSLOT", m.slot, "NODE", m.dstID)
	}
}

func (m *Move) do(s *Server, args ...any) {
	m.t.Helper()
	if err := s.Admin().Do(context.Background(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		m.t.Fatalf("redistest: %v: %v", args, err)
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A route is how a caller reaches the server.
type route int

const (
	direct  route = iota // latency is measured so
	proxied              // bytes and round trips
)

// bench is all that the measuring needs.
type bench struct {
	plan
	scope       *redistest.Scope
	admin       *redis.Client // for what is not measured
	setter      *rratelimiter.Client
	proxy       *redistest.Proxy
	noise       *noise
	contestants []contestant
}

func newBench(ctx context.Context, s *redistest.Scope, pl plan) (*bench, error) {
	peer, err := javapeer.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = peer.Close() }) // it has answered what we wanted to know
	server := redistest.Start(s)
	b := &bench{plan: pl, scope: s, admin: server.Admin(), proxy: redistest.StartProxy(s, server.Addr)}
	b.setter, b.noise = b.client(b.admin), &noise{rdb: b.admin}
	if err := b.noise.prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing the noise: %w", err)
	}
	return b, b.enlist(ctx, server, peer)
}

// enlist makes the contestants.
func (b *bench) enlist(ctx context.Context, server *redistest.Server, peer *javapeer.Peer) error {
	addrs := [...]string{direct: server.Addr, proxied: b.proxy.Addr}
	var rdbs [2]*redis.Client
	for r, addr := range addrs {
		rdbs[r] = server.Client(b.scope, func(o *redis.Options) { o.Addr = addr })
	}
	same, err := newBare(ctx, b, rdbs, server.Client(b.scope))
	if err != nil {
		return err
	}
	java, err := newRedisson(ctx, peer, addrs)
	b.contestants = []contestant{floor: newFloor(rdbs), bare: same, ours: newOurs(b, rdbs), javas: java}
	return err
}

// client returns a Client of this library, closed at the end.
func (b *bench) client(rdb *redis.Client) *rratelimiter.Client {
	c := rratelimiter.New(rdb)
	b.scope.Cleanup(func() { _ = c.Close() })
	return c
}

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A server is the Redis that the demo runs on.
type server struct {
	rdb   *redis.Client
	where string // what the demo calls it
	name  string // of the limiter
	close func()
}

// embedded starts a miniredis that is reached through pipes: no port can be in use
// already, and no firewall asks.
func embedded() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // otherwise keys never expire
	rdb := redis.NewClient(plain(&redis.Options{
		Addr:   "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	}))
	return &server{rdb, "an embedded miniredis", "demo", func() {
		_ = rdb.Close() // before the server, or its connections break
		m.Close()
	}}
}

// nameChance is how many random letters the name of a limiter on a remote server
// has: 40 bits, so that no other limiter has the name.
const nameChance = 8

// remote returns a server that the user runs. The limiter there has a name of its
// own, because the demo must not read or delete the keys of another limiter.
func remote(opts *redis.Options) *server {
	opts.DialTimeout, opts.DialerRetries = reachable, 1 // a person is waiting
	rdb := redis.NewClient(plain(opts))
	name := "rrl-demo-" + strings.ToLower(rand.Text()[:nameChance])
	return &server{rdb, "Redis at " + opts.Addr, name, func() { _ = rdb.Close() }}
}

// plain sets the options of a client that ends its calls with their context. It
// reads RESP2, whose replies have the order and form that redis-cli shows. And it
// sends none of the commands by which go-redis introduces itself, for an old server
// may not know them.
func plain(opts *redis.Options) *redis.Options {
	opts.ContextTimeoutEnabled = true
	opts.Protocol = 2
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts
}

// reachable is how long a server may take to reply for the first time: longer than
// any network needs, and short for a person who has mistyped the address.
const reachable = 2 * time.Second

// ping returns an error if the server does not reply.
func (s *server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("cannot reach %s: %w", s.where, err)
	}
	return nil
}

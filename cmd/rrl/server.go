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
	where string // for the reader
	name  string // of the limiter
	close func()
}

// embedded starts a miniredis that is reached through pipes: no port that
// could be taken, no firewall that could ask.
func embedded() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // by itself it lets no key expire
	rdb := redis.NewClient(plain(&redis.Options{
		Addr:   "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	}))
	return &server{rdb, "an embedded miniredis", "demo", func() {
		_ = rdb.Close() // first, or its connections break
		m.Close()
	}}
}

// remote is a server somebody else runs. The limiter gets a name that nobody
// else has, for the keys are neither ours to read nor to delete otherwise.
func remote(opts *redis.Options) *server {
	opts.DialTimeout, opts.DialerRetries = reachable, 1 // somebody sits there and waits
	rdb := redis.NewClient(plain(opts))
	name := "rrl-demo-" + strings.ToLower(rand.Text()[:8])
	return &server{rdb, "Redis at " + opts.Addr, name, func() { _ = rdb.Close() }}
}

// plain makes a client that ends its calls with their context and reads
// RESP2, in which replies come in the order and form that redis-cli shows; and
// that spares a server of any age what go-redis has to say about itself.
func plain(opts *redis.Options) *redis.Options {
	opts.ContextTimeoutEnabled = true
	opts.Protocol = 2
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts
}

// reachable is how long a server may take to answer for the first time.
const reachable = 2 * time.Second

func (s *server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachable)
	defer cancel()
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("cannot reach %s: %w", s.where, err)
	}
	return nil
}

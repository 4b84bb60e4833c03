package demo

import (
	"context"
	"crypto/rand"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A server is the Redis that the demo runs on.
type server struct {
	rdb   redis.UniversalClient
	where string // what the demo calls it
	name  string // of the limiter
	close func()
}

// embedded starts a miniredis that is reached through pipes: no port can be in use
// already, and no firewall asks.
func embedded() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // otherwise keys never expire
	rdb := redis.NewClient(&redis.Options{
		Addr:   "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },

		Protocol:        2, // replies of RESP2 have the order and form that redis-cli shows
		DisableIdentity: true,
		// Otherwise the address is looked up as the name of a host.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
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
func remote(rdb redis.UniversalClient, where string) *server {
	name := "rrl-demo-" + strings.ToLower(rand.Text()[:nameChance])
	return &server{rdb, where, name, func() {}}
}

package redistest

import (
	"context"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Mini returns an embedded miniredis without any network, whose keys expire by
// the clock of Go. In a testing/synctest bubble that is the bubble's clock, and
// the server must be made inside it. Being without a listener it has no Addr;
// MiniClient talks to it. It is closed when the test ends.
func Mini(t TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	// The first Dial starts the server; methods such as Server and Close expect
	// a started one.
	conn, err := m.Dial()
	if err != nil {
		t.Fatalf("redistest: starting miniredis: %v", err)
	}
	_ = conn.Close()
	t.Cleanup(m.Close)
	return m
}

// MiniClient returns a new client of m over in-memory pipes, after mods have
// changed its options. It works in the bubble that m was made in, and is closed
// before m: a goroutine left behind there would be a panic of synctest. A PubSub
// has goroutines of its own, which end only when the test closes it.
func MiniClient(t TB, m *miniredis.Miniredis, mods ...func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{
		Addr:   "miniredis",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		// go-redis keeps the timers of those who wait for a connection in a
		// pool of the whole process, and a timer from one bubble panics in the
		// next. With a connection for everybody nobody waits; a mod
		// that sets fewer brings the panic back.
		PoolSize: 4096,
	}
	return newClient(t, opts, append([]func(*redis.Options){quiet}, mods...))
}

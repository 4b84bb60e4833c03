package redistest

import (
	"context"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Mini returns an embedded miniredis without any network. Its keys expire by the
// clock of Go. In a testing/synctest bubble that is the clock of the bubble, and
// the server must be created inside. It has no listener and no Addr; use
// MiniClient. It is closed when the test ends.
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
// changed its options. It works in the bubble of m and is closed before m: synctest
// panics when a goroutine is left behind. A PubSub has its own goroutines, which
// end only when the test closes it.
func MiniClient(t TB, m *miniredis.Miniredis, mods ...func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{
		Addr:   "miniredis",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		// A goroutine that waits for a connection takes a timer from a pool that
		// go-redis has for the whole process. A timer from one bubble panics in
		// the next. With so many connections none waits; a mod that sets fewer
		// brings the panic back.
		PoolSize: 4096,
	}
	return newClient(t, opts, append([]func(*redis.Options){quiet}, mods...))
}

package redistest

import (
	"context"
	"net"
	"slices"
	"sync"

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
	coverLua(t, m)
	return m
}

// MiniClient returns a new client of m over in-memory pipes, after mods have
// changed its options. It works in the bubble of m and is closed before m: synctest
// panics when a goroutine is left behind. A PubSub has its own goroutines, which
// end only when the test closes it.
func MiniClient(t TB, m *miniredis.Miniredis, mods ...func(*redis.Options)) *redis.Client {
	t.Helper()
	// go-redis may still dial when the client is closed, and m may not be dialled and closed at once.
	var mu sync.RWMutex
	closed := false // guarded by mu
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		closed = true
	})
	opts := &redis.Options{
		Addr: "miniredis",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			mu.RLock()
			defer mu.RUnlock()
			if closed {
				return nil, net.ErrClosed
			}
			conn, err := m.Dial()
			if err != nil {
				return nil, err
			}
			return newRoomy(conn), nil
		},
		// A goroutine that waits for a connection takes a timer from a pool that
		// go-redis has for the whole process. A timer from one bubble panics in
		// the next. With 4096 connections no goroutine waits; a mod that sets fewer
		// brings the panic back.
		PoolSize: 4096,
		// A dial that fails because m is closed must not be repeated after the bubble has ended.
		DialerRetries: 1,
	}
	return newClient(t, opts, append([]func(*redis.Options){quiet}, mods...))
}

// A roomy connection buffers what is written, as TCP does. A pipe has no buffer: a PubSub
// that subscribes while its server sends it a message would wait for that server, which
// waits for the PubSub.
type roomy struct {
	net.Conn
	wake chan struct{} // capacity one

	mu      sync.Mutex
	pending []byte // guarded by mu, as err is
	err     error
}

func newRoomy(conn net.Conn) *roomy {
	r := &roomy{Conn: conn, wake: make(chan struct{}, 1)}
	go r.flush()
	return r
}

// Write buffers p. It returns the error of an earlier write.
func (r *roomy) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	r.pending = append(r.pending, p...)
	r.rouse()
	return len(p), nil
}

// Close closes the connection and ends its goroutine.
func (r *roomy) Close() error {
	err := r.Conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = net.ErrClosed
	r.rouse()
	return err
}

func (r *roomy) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// flush writes what is pending until the connection is closed.
func (r *roomy) flush() {
	for range r.wake {
		r.mu.Lock()
		next, err := slices.Clone(r.pending), r.err
		r.pending = r.pending[:0]
		r.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := r.Conn.Write(next); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
			return
		}
	}
}

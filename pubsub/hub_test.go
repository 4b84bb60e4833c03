package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// inBubble runs a spec in fake time, on a server without a network. The bubble fails the test if a goroutine
// is left.
func inBubble(t *testing.T, spec func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis),
	mods ...func(*redis.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		spec(t, newHub(t, redistest.MiniClient(t, m, mods...)), m)
	})
}

// bubbleStart is when the clock of each bubble starts.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// dialing makes a client connect by dial.
func dialing(dial func(ctx context.Context) (net.Conn, error)) func(*redis.Options) {
	return func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
}

func refused(context.Context) (net.Conn, error) { return nil, errors.New("refused") }

// In a bubble, no time passes until a signal comes.
func TestSubscribeSignalsConfirmationAndMessagesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		wake := heard(t, h, "a")
		synctest.Wait()
		silent(t, "before any message", wake)
		slow := subscribed(t, h.Subscribe, "a")
		select {
		case <-slow:
		default:
			t.Fatal("no signal of a channel that was confirmed before")
		}
		silent(t, "another subscriber", wake)
		for i := range 1000 {
			m.Publish("a", "x")
			woken(t, fmt.Sprint("message ", i), wake)
		}
		woken(t, "1000 messages", slow)
		silent(t, "1000 messages are one signal", slow)
		m.Publish("b", "x")
		synctest.Wait()
		silent(t, "a message on another channel", wake)
		if took := time.Since(bubbleStart); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// The bubble fails the test if a goroutine is left: no test calls Close here.
func TestLastCancelEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		connections := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := m.CurrentConnectionCount(); n != want {
				t.Fatalf("%d connections, want %d", n, want)
			}
		}
		h := pubsub.New(redistest.MiniClient(t, m))
		connections(0)
		for range 3 {
			a, cancelA := h.Subscribe("a")
			b, cancelB := h.Subscribe("b")
			_, cancelEvents := h.Events("c")
			woken(t, "confirmed", a, b)
			connections(1)
			cancelA()
			synctest.Wait()
			if n := m.PubSubNumSub("a", "b", "c"); n["a"] != 0 || n["b"] != 1 || n["c"] != 1 {
				t.Fatalf("after one cancel the channels have %v subscriptions", n)
			}
			cancelB()
			cancelEvents()
			time.Sleep(10 * time.Second)
			connections(0)
		}
	})
}

// A line is an open connection that may be dead in one direction: once it is deaf, what the server sends is
// lost, and once it is mute, nothing can be sent.
type line struct {
	net.Conn
	deaf, mute atomic.Bool
}

func (l *line) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if err != nil || !l.deaf.Load() {
			return n, err
		}
	}
}

func (l *line) Write(b []byte) (int, error) {
	if l.mute.Load() {
		return 0, errors.New("broken pipe")
	}
	return l.Conn.Write(b)
}

// dialled returns a new line to m.
func dialled(m *miniredis.Miniredis, lines chan<- *line) (net.Conn, error) {
	conn, err := m.Dial()
	l := &line{Conn: conn}
	lines <- l
	return l, err
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		lines := make(chan *line, 10)
		h := newHub(t, redistest.MiniClient(t, m, dialing(func(context.Context) (net.Conn, error) {
			return dialled(m, lines)
		})))
		wake := heard(t, h, "a")
		events := subscribed(t, h.Events, "b")
		time.Sleep(time.Hour) // pings keep it
		silent(t, "nothing was lost", wake)
		if n := len(lines); n != 1 {
			t.Fatalf("%d connections in a quiet hour, want 1", n)
		}
		(<-lines).deaf.Store(true)
		start := time.Now()
		woken(t, "reconnected", wake)
		if took := time.Since(start); took > 7*time.Second {
			t.Errorf("found out after %v", took)
		}
		synctest.Wait()
		silent(t, "reconnected, which is one signal", events, wake)
		m.Publish("a", "x")
		m.Publish("b", "x")
		woken(t, "after the reconnect", wake, events)
		if n := m.CurrentConnectionCount(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestServerIsTriedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		var dials atomic.Int64
		var up atomic.Bool
		lines := make(chan *line, 10)
		h := newHub(t, redistest.MiniClient(t, m, dialing(func(ctx context.Context) (net.Conn, error) {
			dials.Add(1)
			if !up.Load() {
				return refused(ctx)
			}
			return dialled(m, lines)
		})))
		wake := subscribed(t, h.Subscribe, "a")
		gone, cancelGone := h.Subscribe("gone")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := dials.Load(); n < 15 || n > 50 {
			t.Errorf("%d dials in a minute", n)
		}
		silent(t, "nothing is confirmed", wake)
		cancelGone()
		late := subscribed(t, h.Subscribe, "late")
		up.Store(true)
		start := time.Now()
		woken(t, "confirmed at last", wake, late)
		if took := time.Since(start); took > 3200*time.Millisecond {
			t.Errorf("connected %v after the server was up", took)
		}
		synctest.Wait()
		silent(t, "cancelled", gone)
		if n := m.PubSubNumSub("gone")["gone"]; n != 0 {
			t.Error("subscribed to what was cancelled before")
		}
		(<-lines).mute.Store(true)
		subscribed(t, h.Subscribe, "more")
		start = time.Now()
		woken(t, "reconnected", wake)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("reconnected after %v: failures from before still count", took)
		}
	})
}

func TestCloseEndsAll(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		wake, cancel := h.Subscribe("a")
		events, _ := h.Events("b")
		woken(t, "confirmed", wake)
		h.Close()
		h.Close()
		synctest.Wait()
		if n := m.CurrentConnectionCount(); n != 0 {
			t.Errorf("%d connections left", n)
		}
		after, cancelAfter := h.Subscribe("a")
		eventsAfter, _ := h.Events("a")
		m.Publish("a", "x")
		m.Publish("b", "x")
		time.Sleep(time.Minute)
		silent(t, "closed", wake, events, after, eventsAfter)
		cancel()
		cancelAfter()
	})
}

// A server that can't be reached delays neither callers nor Close. One that accepts a connection and sends
// nothing delays Close by the timeouts of rdb.
func TestCloseWhileConnecting(t *testing.T) {
	hangs := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, dial := range map[string]func(context.Context) (net.Conn, error){
		"refused": refused, "hanging": hangs, "hanging cluster": hangs,
		"silent": func(context.Context) (net.Conn, error) { conn, _ := net.Pipe(); return conn, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &redis.UniversalOptions{
					Addrs:       []string{"127.0.0.1:1"}, // a name would be looked up outside the bubble
					ReadTimeout: time.Second, WriteTimeout: time.Second,
					IsClusterMode: name == "hanging cluster",
					Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
						return dial(ctx)
					},
				}
				rdb := redis.NewUniversalClient(o)
				defer rdb.Close()
				h := newHub(t, rdb)
				wake, cancel := h.Subscribe("a")
				synctest.Wait()
				_, _ = h.Events("b", "x")
				synctest.Wait()
				cancel()
				h.Close()
				silent(t, "never confirmed", wake)
				if since := time.Since(bubbleStart); since > 2*time.Second || name != "silent" && since != 0 {
					t.Errorf("it took %v", since)
				}
				time.Sleep(time.Minute) // the pool of rdb goes on dialing, though no caller waits for it
			})
		})
	}
}

func heap() uint64 {
	debug.FreeOSMemory() // also collects garbage
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Not parallel, as it looks at the memory of the process.
func TestNothingStaysBehind(t *testing.T) {
	const n, allowed = 100_000, 1 << 20
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	h := newHub(t, s.Client(t, func(o *redis.Options) { o.Addr = p.Addr }))
	_, cancelStays := confirmed(t, h.Subscribe, "stays")
	before := heap()
	for _, server := range []string{"up", "down"} {
		start := redistest.Calls(t, s.Admin(), "subscribe")
		for i := range n {
			_, cancel := h.Subscribe(fmt.Sprint("channel ", i))
			cancel()
		}
		if sent := redistest.Calls(t, s.Admin(), "subscribe") - start; sent > n/2 {
			t.Errorf("%d SUBSCRIBE for %d channels that came and went", sent, n)
		}
		redistest.Eventually(t, "memory is free with the server "+server, func() bool {
			return heap() < before+allowed
		})
		p.Down()
		p.Cut()
	}
	cancelStays()
	cancels := make([]func(), n)
	for i := range cancels {
		_, cancels[i] = h.Subscribe(fmt.Sprint("channel ", i))
	}
	for _, cancel := range cancels {
		cancel()
	}
	clear(cancels)
	redistest.Eventually(t, "memory is free after many at once", func() bool {
		return heap() < before+allowed
	})
	p.Up()
	heard(t, h, "stays")
}

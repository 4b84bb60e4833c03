package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// inBubble runs a spec in fake time, on a server without a network.
func inBubble(t *testing.T, spec func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis),
	mods ...func(*redis.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		spec(t, newHub(t, redistest.MiniClient(t, m, mods...)), m)
	})
}

// dialing makes a client connect by dial.
func dialing(dial func(ctx context.Context) (net.Conn, error)) func(*redis.Options) {
	return func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
}

func TestSubscribeSignalsConfirmationAndMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		wake := heard(t, h, "a")
		synctest.Wait()
		silent(t, wake, "before any message")
		m.Publish("a", "x")
		woken(t, wake, "message")
		m.Publish("b", "x")
		synctest.Wait()
		silent(t, wake, "a message on another channel")
	})
}

func TestSubscribeToAConfirmedChannelSignalsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, _ *miniredis.Miniredis) {
		first := heard(t, h, "a")
		second := subscribed(t, h.Subscribe, "a")
		select {
		case <-second:
		default:
			t.Fatal("no signal when Subscribe has returned")
		}
		silent(t, first, "another subscriber")
	})
}

func TestSlowSubscriberDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		slow := subscribed(t, h.Subscribe, "a")
		wake := heard(t, h, "a")
		for i := range 1000 {
			m.Publish("a", "x")
			woken(t, wake, fmt.Sprint("message ", i))
		}
		woken(t, slow, "1000 messages")
		silent(t, slow, "1000 messages are one signal")
	})
}

func TestCancelEndsOneSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		stays, cancelStays := h.Subscribe("a")
		goes, cancelGoes := h.Subscribe("a")
		woken(t, stays, "confirmed")
		woken(t, goes, "confirmed")
		cancelGoes()
		cancelGoes() // must not count for the other one
		m.Publish("a", "x")
		woken(t, stays, "message")
		synctest.Wait()
		silent(t, goes, "after cancel")
		cancelStays()
		again := heard(t, h, "a")
		cancelStays() // neither
		m.Publish("a", "x")
		woken(t, again, "message")
	})
}

// The bubble fails the test if a goroutine is left: no test calls Close here.
func TestLastCancelEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		h := pubsub.New(redistest.MiniClient(t, m))
		synctest.Wait()
		if n := m.CurrentConnectionCount(); n != 0 {
			t.Fatalf("New has made %d connections", n)
		}
		for range 3 {
			a, cancelA := h.Subscribe("a")
			b, cancelB := h.Subscribe("b")
			_, cancelEvents := h.Events("c")
			woken(t, a, "confirmed")
			woken(t, b, "confirmed")
			synctest.Wait()
			if n := m.CurrentConnectionCount(); n != 1 {
				t.Fatalf("%d connections for 3 channels", n)
			}
			cancelA()
			synctest.Wait()
			if n := m.PubSubNumSub("a", "b", "c"); n["a"] != 0 || n["b"] != 1 || n["c"] != 1 {
				t.Fatalf("after one cancel the channels have %v subscriptions", n)
			}
			cancelB()
			cancelEvents()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if n := m.CurrentConnectionCount(); n != 0 {
				t.Fatalf("%d connections after the last cancel", n)
			}
		}
	})
}

func TestCancelAgainstSubscribeEndsSubscribed(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		heard(t, h, "other")
		_, cancel := h.Subscribe("a")
		for i := range 200 {
			if i%3 == 0 {
				synctest.Wait() // sometimes the server has heard of the last one, sometimes not
			}
			cancel()
			if i%2 == 0 {
				synctest.Wait()
			}
			_, cancel = h.Subscribe("a")
		}
		cancel()
		wake := heard(t, h, "a")
		synctest.Wait()
		if n := m.PubSubNumSub("a")["a"]; n != 1 {
			t.Fatalf("%d subscriptions, want 1", n)
		}
		m.Publish("a", "x")
		woken(t, wake, "message")
	})
}

func TestEventsSignalOnlyTheirPayloads(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		payloads := []string{"one", "two"}
		some := subscribed(t, h.Events, "a", payloads...)
		payloads[0] = "three"
		all := subscribed(t, h.Events, "a")
		synctest.Wait()
		silent(t, some, "confirmed")
		silent(t, all, "confirmed")
		for payload, wanted := range map[string]bool{"one": true, "two": true, "three": false, "ONE": false,
			"": false, "on": false} {
			m.Publish("a", payload)
			woken(t, all, payload)
			synctest.Wait()
			if wanted {
				woken(t, some, payload)
			}
			silent(t, some, payload)
		}
	})
}

func TestEventsAndSubscribeShareAChannel(t *testing.T) {
	inBubble(t, func(t *testing.T, h *pubsub.Hub, m *miniredis.Miniredis) {
		events := subscribed(t, h.Events, "a", "one")
		synctest.Wait()
		wake := heard(t, h, "a")
		late := subscribed(t, h.Events, "a", "one")
		m.Publish("a", "other")
		woken(t, wake, "message")
		synctest.Wait()
		silent(t, events, "announcement and another payload")
		silent(t, late, "confirmed before, and another payload")
		m.Publish("a", "one")
		woken(t, late, "payload")
		woken(t, events, "payload")
		woken(t, wake, "message")
	})
}

// A deafConn reads nothing any more once its line is dead, though it is open:
// what the server sends is lost.
type deafConn struct {
	net.Conn
	dead *atomic.Bool
}

func (c deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		lines := make(chan *atomic.Bool, 10)
		h := newHub(t, redistest.MiniClient(t, m, dialing(func(context.Context) (net.Conn, error) {
			conn, err := m.Dial()
			dead := new(atomic.Bool)
			lines <- dead
			return deafConn{conn, dead}, err
		})))
		wake := subscribed(t, h.Subscribe, "a")
		events := subscribed(t, h.Events, "b")
		woken(t, wake, "confirmed")
		time.Sleep(time.Hour) // pings keep it
		silent(t, wake, "nothing was lost")
		if n := len(lines); n != 1 {
			t.Fatalf("%d connections in a quiet hour, want 1", n)
		}
		(<-lines).Store(true)
		start := time.Now()
		woken(t, wake, "reconnected")
		if took := time.Since(start); took > 7*time.Second {
			t.Errorf("found out after %v", took)
		}
		synctest.Wait()
		silent(t, events, "reconnected")
		m.Publish("a", "x")
		m.Publish("b", "x")
		woken(t, wake, "message after the reconnect")
		woken(t, events, "event after the reconnect")
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
		conns := make(chan net.Conn, 10)
		h := newHub(t, redistest.MiniClient(t, m, dialing(func(context.Context) (net.Conn, error) {
			dials.Add(1)
			if !up.Load() {
				return nil, errors.New("refused")
			}
			conn, err := m.Dial()
			conns <- conn
			return conn, err
		})))
		wake := subscribed(t, h.Subscribe, "a")
		gone, cancelGone := h.Subscribe("gone")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := dials.Load(); n < 15 || n > 50 {
			t.Errorf("%d dials in a minute", n)
		}
		silent(t, wake, "nothing is confirmed")
		cancelGone()
		late := subscribed(t, h.Subscribe, "late")
		up.Store(true)
		start := time.Now()
		woken(t, wake, "confirmed at last")
		woken(t, late, "confirmed at last")
		if took := time.Since(start); took > 3200*time.Millisecond {
			t.Errorf("connected %v after the server was up", took)
		}
		synctest.Wait()
		silent(t, gone, "cancelled")
		if n := m.PubSubNumSub("gone")["gone"]; n != 0 {
			t.Error("subscribed to what was cancelled before")
		}
		_ = (<-conns).Close()
		start = time.Now()
		woken(t, wake, "reconnected")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("reconnected after %v: failures from before still count", took)
		}
	})
}

func TestCloseEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		h := pubsub.New(redistest.MiniClient(t, m))
		wake, cancel := h.Subscribe("a")
		events, _ := h.Events("b")
		woken(t, wake, "confirmed")
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
		for _, c := range []<-chan struct{}{wake, events, after, eventsAfter} {
			silent(t, c, "closed")
		}
		cancel()
		cancelAfter()
	})
}

func TestCloseUnused(t *testing.T) {
	inBubble(t, func(_ *testing.T, h *pubsub.Hub, _ *miniredis.Miniredis) { h.Close() })
}

// A server that can't be reached must hold up neither callers nor Close. One that accepts and says nothing
// is waited for as long as rdb does.
func TestCloseWhileConnecting(t *testing.T) {
	for name, dial := range map[string]func(context.Context) (net.Conn, error){
		"refused": func(context.Context) (net.Conn, error) { return nil, errors.New("refused") },
		"hanging": func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		"silent":  func(context.Context) (net.Conn, error) { conn, _ := net.Pipe(); return conn, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *pubsub.Hub, _ *miniredis.Miniredis) {
				wake, cancel := h.Subscribe("a")
				synctest.Wait()
				_, _ = h.Events("b", "x")
				synctest.Wait()
				cancel()
				h.Close()
				silent(t, wake, "never confirmed")
				if since := time.Since(bubbleStart); since > 2*time.Second || name != "silent" && since != 0 {
					t.Errorf("it took %v", since)
				}
			}, dialing(dial), func(o *redis.Options) {
				o.ReadTimeout, o.WriteTimeout = time.Second, time.Second
			})
		})
	}
}

// bubbleStart is when the clock of each bubble starts.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestCloseWhileTheClusterIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, // a name would be looked up outside the bubble
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		defer rdb.Close()
		h := newHub(t, rdb)
		_, _ = h.Subscribe("a")
		_, _ = h.Events("b")
		synctest.Wait()
		h.Close()
		if since := time.Since(bubbleStart); since != 0 {
			t.Errorf("it took %v", since)
		}
		time.Sleep(time.Minute) // the pool of rdb goes on dialing, though no caller waits for it
	})
}

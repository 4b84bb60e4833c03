package pubsub_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// patience bounds every wait; it is reached by tests that fail only.
const patience = 30 * time.Second

// newHub returns a hub that is closed before rdb, which must be made before.
func newHub(t *testing.T, rdb redis.UniversalClient) *pubsub.Hub {
	t.Helper()
	h := pubsub.New(rdb)
	t.Cleanup(h.Close)
	return h
}

// wakes waits for a signal, and reports whether it has come. A goroutine of a test
// can call it.
func wakes(wake <-chan struct{}) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case _, open := <-wake:
		return open
	case <-timer.C:
		return false
	}
}

// woken waits for a signal, which should come for the reason why.
func woken(t *testing.T, wake <-chan struct{}, why string) {
	t.Helper()
	if !wakes(wake) {
		t.Fatalf("%s: no signal, or the channel was closed", why)
	}
}

// heard returns the signals of a channel, when its subscription is confirmed.
func heard(t *testing.T, h *pubsub.Hub, channel string) <-chan struct{} {
	t.Helper()
	wake, cancel := h.Subscribe(channel)
	t.Cleanup(cancel)
	woken(t, wake, "confirmed")
	return wake
}

// crowd returns the signals of n channels, when all subscriptions are confirmed, and what ends them.
func crowd(
	t *testing.T, n int, subscribe func(channel string, payloads ...string) (<-chan struct{}, func()),
) (signals []<-chan struct{}, cancels []func()) {
	t.Helper()
	for i := range n {
		wake, cancel := subscribe(fmt.Sprint("channel ", i))
		signals, cancels = append(signals, wake), append(cancels, cancel)
	}
	for i, wake := range signals {
		woken(t, wake, fmt.Sprint("confirmed ", i))
	}
	return signals, cancels
}

// silent expects no signal until now.
func silent(t *testing.T, wake <-chan struct{}, why string) {
	t.Helper()
	select {
	case _, open := <-wake:
		t.Fatalf("%s: a signal, or the end of the channel: open is %v", why, open)
	default:
	}
}

// eventually waits for a server or another goroutine to get where it is going.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

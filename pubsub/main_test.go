package pubsub_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// patience bounds every wait; only failing tests reach it.
const patience = 30 * time.Second

// newHub returns a hub that is closed before rdb, which must be made before.
func newHub(t *testing.T, rdb redis.UniversalClient) *pubsub.Hub {
	t.Helper()
	h := pubsub.New(rdb)
	t.Cleanup(h.Close)
	return h
}

// wakes waits for a signal, and reports whether it has come. A goroutine of a test can call it.
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

// woken waits for a signal of each subscriber, which should come for the reason why.
func woken(t *testing.T, why string, signals ...<-chan struct{}) {
	t.Helper()
	for i, wake := range signals {
		if !wakes(wake) {
			t.Fatalf("%s: no signal of subscriber %d, or the channel was closed", why, i)
		}
	}
}

// silent expects no signal until now.
func silent(t *testing.T, why string, signals ...<-chan struct{}) {
	t.Helper()
	for i, wake := range signals {
		select {
		case _, open := <-wake:
			t.Fatalf("%s: a signal of subscriber %d, or the end of its channel: open is %v", why, i, open)
		default:
		}
	}
}

// subscribe is a method of a hub.
type subscribe = func(channel string, payloads ...string) (wake <-chan struct{}, cancel func())

// subscribed returns the signals of a channel until the test ends.
func subscribed(t *testing.T, to subscribe, channel string, payloads ...string) <-chan struct{} {
	t.Helper()
	wake, cancel := to(channel, payloads...)
	t.Cleanup(cancel)
	return wake
}

// confirmed returns the signals of a channel after its subscription was confirmed, and what ends it.
func confirmed(t *testing.T, to subscribe, channel string) (wake <-chan struct{}, cancel func()) {
	t.Helper()
	wake, cancel = to(channel)
	t.Cleanup(cancel)
	woken(t, "confirmed", wake)
	return wake, cancel
}

// heard is confirmed for Subscribe.
func heard(t *testing.T, h *pubsub.Hub, channel string) <-chan struct{} {
	t.Helper()
	wake, _ := confirmed(t, h.Subscribe, channel)
	return wake
}

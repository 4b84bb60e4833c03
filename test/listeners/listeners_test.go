package listeners_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// heard returns a listener and what it has heard.
func heard() (f func(name string), names <-chan string) {
	c := make(chan string, 100)
	return func(name string) { c <- name }, c
}

// hears expects that a listener is called with a name.
func hears(t *testing.T, names <-chan string, want string) {
	t.Helper()
	if got := Receive(t, names); got != want {
		t.Fatalf("heard of %q, want %q", got, want)
	}
}

func TestListenersHearOfDeleteAndExpiry(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "Exg") // all that Redisson needs
	c := rratelimiter.New(s.Client(t), rratelimiter.WithNameMapper(func(name string) string {
		return "app:" + name
	}))
	defer c.Close()
	ctx := t.Context()
	limiters := []*rratelimiter.RateLimiter{c.RateLimiter("other"), c.RateLimiter("l")}
	l := limiters[1]
	expired, expirations := heard()
	deleted, deletions := heard()
	stopExpired, err := l.OnExpired(ctx, expired)
	NoError(t, err)
	stopDeleted, err := l.OnDeleted(ctx, deleted)
	NoError(t, err)
	for range 2 { // another limiter is nothing to them, and neither is the other event
		for _, l := range limiters {
			NoError(t, l.SetRate(ctx, Overall, 1, time.Hour))
			// A PEXPIRE that takes as long would delete it.
			NoError(t, Yes(l.Expire(ctx, 50*time.Millisecond)))
		}
		hears(t, expirations, "app:l")
		for _, l := range limiters {
			NoError(t, l.SetRate(ctx, Overall, 1, time.Hour))
			NoError(t, Yes(l.Delete(ctx)))
		}
		hears(t, deletions, "app:l")
	}
	stopExpired()
	stopExpired()
	stopDeleted()
	Until(t, func() bool {
		return s.Admin().PubSubNumSub(ctx, "__keyevent@0__:del").Val()["__keyevent@0__:del"] == 0
	})
	later, more := heard()
	stopLater, err := l.OnDeleted(ctx, later)
	NoError(t, err)
	defer stopLater()
	NoError(t, l.SetRate(ctx, Overall, 1, time.Hour))
	NoError(t, Yes(l.Delete(ctx)))
	hears(t, more, "app:l")
	if len(expirations)+len(deletions) > 0 {
		t.Errorf("heard %d and %d more", len(expirations), len(deletions))
	}
}

// A server that tells nothing is an error that says which setting does it.
func TestListenersNeedNotifications(t *testing.T) {
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	l := c.RateLimiter("l")
	f, _ := heard()
	for flags, want := range map[string][2]bool{ // of OnExpired and OnDeleted
		"": {}, "Kx": {}, "Ex": {true, false}, "Eg": {false, true}, "EA": {true, true},
	} {
		NoError(t, s.Admin().ConfigSet(t.Context(), "notify-keyspace-events", flags).Err())
		for i, on := range []func(context.Context, func(string)) (func(), error){l.OnExpired, l.OnDeleted} {
			stop, err := on(t.Context(), f)
			if (err == nil) != want[i] || err != nil && !errors.Is(err, rratelimiter.ErrNoNotifications) {
				t.Errorf("%q: %v, want an error: %v", flags, err, !want[i])
			}
			if err == nil {
				stop()
			}
		}
	}
}

// A server that does not let its settings be read is trusted to notify.
func TestListenersTrustAServerWithSecretSettings(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "EA", "--rename-command", "CONFIG", "secret")
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	l := c.RateLimiter("l")
	f, names := heard()
	NoError(t, ErrOf(l.OnDeleted(t.Context(), f))) // ended by Close
	NoError(t, l.SetRate(t.Context(), Overall, 1, time.Hour))
	NoError(t, Yes(l.Delete(t.Context())))
	hears(t, names, "l")
}

package clusters_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Clients that embed one of go-redis. Users write such types to add methods.
type (
	embedsClient  struct{ *redis.Client }
	embedsCluster struct{ *redis.ClusterClient }
)

// A client that embeds a cluster client is used like one: the slots of names are
// checked, and listeners hear of all masters.
func TestAClientThatEmbedsOneForAClusterIsOne(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.WithArgs("--notify-keyspace-events", "Egx"))
	c := NewClient(t, embedsCluster{cluster.Client(t)})
	err := c.RateLimiter("a{b").SetRate(t.Context(), Overall, 1, time.Second)
	if !errors.Is(err, rratelimiter.ErrInvalidArgument) || !strings.Contains(err.Error(), "slots") {
		t.Errorf("a name with keys in several slots: %v", err)
	}
	for range 6 { // names in slots of all masters, most likely
		l := c.RateLimiter(redistest.Name(t))
		NoError(t, l.SetRate(t.Context(), Overall, 1, time.Second))
		NoError(t, Yes(l.TryAcquire(t.Context(), 1, 0)))
		hearsOfDelete(t, l)
	}
}

// hearsOfDelete expects a listener to hear that the limiter was deleted.
func hearsOfDelete(t *testing.T, l *rratelimiter.RateLimiter) {
	t.Helper()
	deleted := make(chan string, 1)
	stop, err := l.OnDeleted(t.Context(), func(name string) { deleted <- name })
	NoError(t, err)
	defer stop()
	NoError(t, ErrOf(l.Delete(t.Context())))
	if name := Receive(t, deleted); name != l.Name() {
		t.Errorf("deleted is %s, want %s", name, l.Name())
	}
}

// The options of the embedded client count: how often a request is sent again, and which
// database the events of the keys come from.
func TestAClientThatEmbedsOneKeepsItsOptions(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "Egx")
	proxy := redistest.StartProxy(t, s.Addr)
	for retries, sent := range map[int]int64{-1: 1, 2: 3} {
		rdb := redis.NewClient(&redis.Options{
			Addr: proxy.Addr, DB: 3, MaxRetries: retries, ReadTimeout: 500 * time.Millisecond,
		})
		c := rratelimiter.New(embedsClient{rdb})
		l := c.RateLimiter(redistest.Name(t))
		NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
		if ok, err := l.TryAcquire(t.Context(), 1, 0); !ok || err != nil { // the script is known from here on
			t.Fatal(ok, err)
		}
		before := proxy.Swallowed()
		proxy.SwallowReply(int(sent))
		if _, err := l.TryAcquire(t.Context(), 1, 0); !errors.Is(err, rratelimiter.ErrNoAnswer) {
			t.Errorf("%d retries: %v, want no answer", retries, err)
		}
		if n := proxy.Swallowed() - before; n != sent {
			t.Errorf("%d retries: sent %d times, want %d", retries, n, sent)
		}
		hearsOfDelete(t, l)
		_ = c.Close()
		_ = rdb.Close()
	}
}

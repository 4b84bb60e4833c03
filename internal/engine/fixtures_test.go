package engine

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/pubsub"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// newEngine returns an Engine on rdb.
func newEngine(t *testing.T, rdb redis.UniversalClient) *Engine {
	t.Helper()
	plain := &wire.Layouts[wire.Bc0I16]
	config := Config{Hub: pubsub.New(rdb), Config: request.Config{
		ID: "id", MapName: func(name string) string { return name },
		Runner: redisx.NewRunner(rdb), Plain: plain, Layout: plain.ForClient(),
	}}
	e := New(config)
	t.Cleanup(e.Close)
	return e
}

// limiter returns the limiter called name.
func (e *Engine) limiter(name string) *Limiter { return e.Limiter("name", name, nil) }

// setRate sets the rate of a limiter.
func setRate(t *testing.T, l *Limiter, typ int, permits int64, interval time.Duration) {
	t.Helper()
	change := Change{Rate: Rate{Type: typ, Permits: permits, Interval: interval}}
	if _, err := l.SetRate(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

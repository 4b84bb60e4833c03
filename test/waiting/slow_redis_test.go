package waiting_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The end of one caller's context or timeout is not the end of the next caller:
// the next caller gets a result of its own.
func TestTheEndOfOneCallerIsNoResultOfOthers(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, 20*time.Second })
	c := rratelimiter.New(rdb)
	defer c.Close()
	l := c.RateLimiter("l")
	NoError(t, l.SetRate(t.Context(), Overall, 10, time.Hour))
	NoError(t, ErrOf(l.Allow(t.Context(), 1)))
	for name, first := range map[string]func(ctx context.Context) error{
		"a timeout": func(ctx context.Context) error {
			return ErrOf(l.TryAcquire(ctx, 1, 400*time.Millisecond))
		},
		"a context": func(ctx context.Context) error { return ErrOf(l.TryAcquire(ctx, 1, 0)) },
	} {
		conn := rdb.Conn()
		NoError(t, conn.Ping(t.Context()).Err()) // it has the only connection
		ctx := t.Context()
		if name == "a context" {
			ctx = TimeLimit(t, 400*time.Millisecond)
		}
		firstIn, secondIn := Arriving(ctx), Arriving(t.Context())
		told, answered := make(chan error, 1), make(chan error, 1)
		go func() { told <- first(firstIn) }()
		Receive(t, firstIn.Came)
		go func() { answered <- l.Acquire(secondIn, 1) }()
		Receive(t, secondIn.Came)
		err := Receive(t, told)
		if !errors.Is(err, rratelimiter.ErrNoAnswer) && !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if len(answered) > 0 {
			t.Fatalf("%s: the second was answered without a connection: %v", name, <-answered)
		}
		NoError(t, conn.Close())
		if err := Receive(t, answered); err != nil {
			t.Errorf("%s: the second: %v", name, err)
		}
	}
}

func TestOneConnectionThatHangsDelaysNoOther(t *testing.T) {
	n := NewProxied(t, 10, time.Hour, func(o *redis.Options) { o.ReadTimeout = 20 * time.Second })
	n.Proxy.HoldNext(1, IsScript)
	start := time.Now()
	for granted := false; !granted; {
		ok, err := n.TryAcquire(t.Context(), 1, 100*time.Millisecond)
		if err != nil && !errors.Is(err, rratelimiter.ErrNoAnswer) {
			t.Fatal(err)
		}
		if granted = ok; time.Since(start) > 10*time.Second {
			t.Fatal("nothing is granted as long as one connection hangs")
		}
	}
	if n.Proxy.Held() != 1 {
		t.Error("no connection hangs")
	}
}

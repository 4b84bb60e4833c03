package javapeer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestVersion(t *testing.T) {
	if got := realPeer(t).Version(); !strings.HasPrefix(got, "4.") {
		t.Errorf("version %q, want that of the pom", got)
	}
}

// Two instances are two clients: each has an id, and its own keys by that id.
func TestConnect(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	server := redistest.Start(t)
	a, idA := connect(t, p, server.Addr)
	_, idB := connect(t, p, server.Addr)
	if idA == "" || idA == idB {
		t.Errorf("ids %q and %q", idA, idB)
	}
	l := p.Limiter(a, "a")
	_, err := l.TrySetRate(ctx, javapeer.PerClient, 5, time.Hour, 0)
	ok(t, "TrySetRate", err)
	ok(t, "Acquire", l.Acquire(ctx, 1))
	if n, err := server.Admin().Exists(ctx, "{a}:permits:"+idA).Result(); n != 1 || err != nil {
		t.Errorf("no permits under the id of Connect: %v", err)
	}
	ok(t, "Disconnect", p.Disconnect(ctx, a))
	if _, err := l.Exists(ctx); err == nil {
		t.Error("the instance answers after Disconnect")
	}
}

func TestConnectCluster(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	cluster := redistest.StartCluster(t)
	client, _ := connect(t, p, "", javapeer.Cluster(cluster.Addrs...))
	for _, name := range []string{"a", "b", "c", "d"} {
		set, err := p.Limiter(client, name).TrySetRate(ctx, javapeer.Overall, 5, time.Hour, 0)
		if !set || err != nil {
			t.Errorf("TrySetRate of %s: %v, %v", name, set, err)
		}
	}
}

func TestError(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	_, unset := p.Limiter(client, "a").TryAcquire(ctx, 1)
	_, unknown := p.Limiter("nobody", "a").TryAcquire(ctx, 1)
	for _, test := range []struct {
		err           error
		class, saying string
	}{
		{unset, "org.redisson.client.RedisException", "RateLimiter is not initialized"},
		{unknown, "java.lang.IllegalArgumentException", "unknown client: nobody"},
	} {
		var e *javapeer.Error
		if !errors.As(test.err, &e) || e.Type != test.class || !strings.Contains(e.Message, test.saying) {
			t.Errorf("error %v, want a %s saying %q", test.err, test.class, test.saying)
		}
	}
}

// A call that waits for permits does not delay another one.
func TestWaitingCall(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	l := p.Limiter(client, "a")
	_, err := l.TrySetRate(ctx, javapeer.Overall, 1, time.Hour, 0)
	ok(t, "TrySetRate", err)
	ok(t, "Acquire", l.Acquire(ctx, 1))

	waiting, cancel := context.WithCancel(ctx)
	waits := make(chan error, 1)
	go func() { waits <- l.Acquire(waiting, 1) }()
	for range 5 {
		if n, err := l.AvailablePermits(ctx); n != 0 || err != nil {
			t.Errorf("AvailablePermits: %d, %v", n, err)
		}
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire: %v", err)
	}
}

// The end of a call's context ends only that call.
func TestContext(t *testing.T) {
	p := realPeer(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	l := p.Limiter(client, "a")
	_, err := l.TrySetRate(soon(t), javapeer.Overall, 1, time.Hour, 0)
	ok(t, "TrySetRate", err)
	ok(t, "Acquire", l.Acquire(soon(t), 1))

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Acquire(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := l.Exists(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exists with a context that has ended: %v", err)
	}
	_, err = l.Exists(soon(t))
	ok(t, "Exists", err)
}

// Close ends the process; a call that still waits returns an error.
func TestClose(t *testing.T) {
	realPeer(t) // it is built, then
	p := redistest.Must(javapeer.Start(soon(t), ""))(t)
	server := redistest.Start(t)
	if _, err := p.Connect(soon(t), "a", server.Addr); err != nil {
		t.Fatal(err)
	}
	l := p.Limiter("a", "a")
	_, err := l.TrySetRate(soon(t), javapeer.Overall, 1, time.Hour, 0)
	ok(t, "TrySetRate", err)
	ok(t, "Acquire", l.Acquire(soon(t), 1))
	waits := make(chan error, 1)
	go func() { waits <- l.Acquire(soon(t), 1) }()

	for range 2 {
		ok(t, "Close", p.Close())
	}
	if err := <-waits; !errors.Is(err, javapeer.ErrEnded) {
		t.Errorf("the call that waited: %v", err)
	}
	if _, err := l.Exists(soon(t)); !errors.Is(err, javapeer.ErrEnded) {
		t.Errorf("a call after Close: %v", err)
	}
	if _, open := <-p.Events(); open {
		t.Error("Events is not closed")
	}
}

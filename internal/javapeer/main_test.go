package javapeer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(suite{m}) }

// suite closes the peer that its tests share.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if p, err := shared(); p != nil && err == nil && p.Close() != nil {
		return 1
	}
	return code
}

// wanted is set by the first test that needs the peer.
var (
	wanted bool
	shared = sync.OnceValues(func() (*javapeer.Peer, error) {
		if !wanted {
			return nil, nil
		}
		return javapeer.Start(context.Background(), "")
	})
)

// realPeer returns the peer that tests share, or skips.
func realPeer(t *testing.T) *javapeer.Peer {
	t.Helper()
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	wanted = true
	p := redistest.Must(shared())(t)
	return p
}

// connect connects a new instance and returns its name.
func connect(
	t *testing.T, p *javapeer.Peer, address string, opts ...javapeer.ConnectOption,
) (client, id string) {
	t.Helper()
	client = redistest.Name(t)
	id = redistest.Must(p.Connect(t.Context(), client, address, opts...))(t)
	t.Cleanup(func() { _ = p.Disconnect(context.Background(), client) }) // a test may have done so
	return client, id
}

// soon bounds what a test waits for, by much more than it takes.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

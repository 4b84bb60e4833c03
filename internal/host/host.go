// Package host gives other packages of this module access to a Client of package
// rratelimiter: its connection, its identity, and its goroutines.
package host

import (
	"context"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/pubsub"

	"github.com/redis/go-redis/v9"
)

// Of returns the Host of client, a *rratelimiter.Client. Package rratelimiter sets Of in its
// init, and nothing sets it again; it takes any because this package cannot import
// rratelimiter.
var Of func(client any) Host

// A Host is the part of a Client that other packages use.
type Host struct {
	Redis   redis.UniversalClient
	Runner  redisx.Runner
	ID      string
	MapName func(name string) string
	Hub     *pubsub.Hub
	Err     error // why the Client cannot be used, nil if it can

	// Ctx ends when the Client is closed.
	Ctx context.Context

	// Go runs f in a goroutine that the Client waits for when it is closed; f must end
	// when its context does. Work is Go for what asks Redis and is soon done. Both
	// report whether f runs: a closed Client runs nothing.
	Go, Work func(f func(ctx context.Context)) bool
}

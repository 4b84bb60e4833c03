// Package host gives other packages of this module access to a Client of package
// rratelimiter: its connection, its identity, and its goroutines.
package host

import (
	"context"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
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
	// when its context does. Work is Go for short jobs that ask Redis. Both report whether
	// f runs: a closed Client runs nothing.
	Go, Work func(f func(ctx context.Context)) bool

	// Ask makes a call of Redis about the limiter called name as the Client makes its own: within its budget,
	// unless Redis is known to be down. If Redis has failed, it also returns what decides instead. Only On
	// sets it.
	Ask func(ctx context.Context, name string, call func(ctx context.Context) error) (Instead, error)

	// Off reports whether nothing is limited.
	Off func() bool

	// Observe tells the Observer of the Client about a call; nil without one.
	Observe func(ctx context.Context, call Call)
}

// An Instead is what decides instead of Redis.
type Instead int

// The fallbacks of a Client, in the order of the constants of package outage.
const (
	Nothing Instead = iota // the call returns the error
	Allow
	Deny
	Local
)

// A Call is the outcome of a call that takes permits.
type Call struct {
	Policy  string // the name of a limiter with a limit for each key, otherwise empty
	Permits int64
	Result  limit.Result
	Err     error
	Start   time.Time
}

// On returns the Host of limiters on rdb if it is a rratelimiter.Redis, otherwise nil. It is set as Of is,
// and nil in programs without package rratelimiter.
var On func(rdb redis.UniversalClient) *Host

// PolicyName returns the name of a limiter with a limit for each key if visitors may see it: 1 to 64
// printable ASCII characters. Otherwise it returns the empty string (limit.Result.Policy).
func PolicyName(name string) string {
	const longest = 64
	if len(name) > longest || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return name
}

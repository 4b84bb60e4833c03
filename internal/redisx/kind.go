package redisx

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Kind holds the properties of a go-redis client. They are found once, by the
// methods of the client and not by its type, so that a user's client that embeds
// one of go-redis is recognised as well.
type Kind struct {
	Single  bool // one server, also behind Sentinel
	Sharded bool // the hash tag of a key chooses its server: Cluster, Ring
	DB      int  // the number of the database; a cluster has only 0

	// retries is how often go-redis resends a command, with pauses between the backoffs.
	retries                int
	minBackoff, maxBackoff time.Duration

	fromReplicas bool          // read-only commands may be sent to a replica
	ReadTimeout  time.Duration // of one attempt; below 1 for none

	// KeepsDeadlines reports whether go-redis ends each command at the deadline of its
	// context (ContextTimeoutEnabled).
	KeepsDeadlines bool

	reload  func(ctx context.Context) // makes a cluster client ask for the nodes; otherwise nil
	rdb     redis.UniversalClient
	servers func(ctx context.Context, visit func(context.Context, *redis.Client) error) error
}

// The defaults of go-redis, for a client whose options cannot be read.
const (
	defaultRetries    = 3
	defaultMinBackoff = 10 * time.Millisecond
	defaultMaxBackoff = time.Second
)

// KindOf returns the kind of a client.
func KindOf(rdb redis.UniversalClient) Kind {
	kind := Kind{
		rdb: rdb, retries: defaultRetries, minBackoff: defaultMinBackoff, maxBackoff: defaultMaxBackoff,
	}
	switch rdb := rdb.(type) {
	case interface{ Options() *redis.Options }:
		o := rdb.Options()
		kind.Single, kind.DB = true, o.DB
		kind.retries, kind.minBackoff, kind.maxBackoff = o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff
		kind.ReadTimeout, kind.KeepsDeadlines = o.ReadTimeout, o.ContextTimeoutEnabled
	case interface{ Options() *redis.ClusterOptions }:
		o := rdb.Options()
		kind.Sharded = true
		kind.retries, kind.minBackoff, kind.maxBackoff = o.MaxRedirects, o.MinRetryBackoff, o.MaxRetryBackoff
		kind.ReadTimeout, kind.KeepsDeadlines = o.ReadTimeout, o.ContextTimeoutEnabled
		kind.fromReplicas = o.ReadOnly
	case interface{ Options() *redis.RingOptions }:
		o := rdb.Options()
		kind.Sharded, kind.DB = true, o.DB
		kind.retries, kind.minBackoff, kind.maxBackoff = o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff
		kind.ReadTimeout, kind.KeepsDeadlines = o.ReadTimeout, o.ContextTimeoutEnabled
	}
	if rdb, ok := rdb.(interface{ ReloadState(ctx context.Context) }); ok {
		kind.reload = rdb.ReloadState
	}
	switch rdb := rdb.(type) {
	case interface {
		ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
	}:
		kind.servers = rdb.ForEachMaster
	case interface {
		ForEachShard(context.Context, func(context.Context, *redis.Client) error) error
	}:
		kind.servers = rdb.ForEachShard
	}
	return kind
}

// Known reports whether the client is of a kind in go-redis.
func (k *Kind) Known() bool { return k.Single || k.Sharded }

// Client returns the Go type of the client, for errors.
func (k *Kind) Client() string { return fmt.Sprintf("%T", k.rdb) }

// EachServer calls f for each server that keeps keys, perhaps concurrently, and
// returns the first error.
func (k *Kind) EachServer(ctx context.Context, f func(ctx context.Context, rdb redis.Cmdable) error) error {
	if k.servers == nil {
		return f(ctx, k.rdb)
	}
	return k.servers(ctx, func(ctx context.Context, server *redis.Client) error { return f(ctx, server) })
}

// IsNil reports whether there is no client. A failed constructor may have left a
// nil pointer in the interface, which is not equal to nil.
func IsNil(rdb redis.UniversalClient) bool {
	if rdb == nil {
		return true
	}
	v := reflect.ValueOf(rdb)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

package redisx

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Kind is what there is to know of a go-redis client. It is found out once, by
// the methods of the client, so that one of the user's that embeds a client of
// go-redis is known as well.
type Kind struct {
	Single  bool // one server, also behind Sentinel
	Sharded bool // the server of a key is chosen by its hash tag: Cluster, Ring
	DB      int  // the number of the database; a cluster has but 0

	// How often go-redis sends a command again, and how long it pauses before.
	retries                int
	minBackoff, maxBackoff time.Duration

	fromReplicas bool          // commands that only read may be sent to a replica
	ReadTimeout  time.Duration // of one attempt; below 1 for none

	reload  func(ctx context.Context) // has a cluster's client ask for the nodes; nil for others
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
		kind.ReadTimeout = o.ReadTimeout
	case interface{ Options() *redis.ClusterOptions }:
		o := rdb.Options()
		kind.Sharded = true
		kind.retries, kind.minBackoff, kind.maxBackoff = o.MaxRedirects, o.MinRetryBackoff, o.MaxRetryBackoff
		kind.ReadTimeout, kind.fromReplicas = o.ReadTimeout, o.ReadOnly
	case interface{ Options() *redis.RingOptions }:
		o := rdb.Options()
		kind.Sharded, kind.DB = true, o.DB
		kind.retries, kind.minBackoff, kind.maxBackoff = o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff
		kind.ReadTimeout = o.ReadTimeout
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

// Known reports whether the client is of a kind that go-redis has.
func (k *Kind) Known() bool { return k.Single || k.Sharded }

// Client returns the Go type of the client, for errors.
func (k *Kind) Client() string { return fmt.Sprintf("%T", k.rdb) }

// EachServer calls f for each server that keeps keys, perhaps at the same time, and
// returns the first error.
func (k *Kind) EachServer(ctx context.Context, f func(ctx context.Context, rdb redis.Cmdable) error) error {
	if k.servers == nil {
		return f(ctx, k.rdb)
	}
	return k.servers(ctx, func(ctx context.Context, server *redis.Client) error { return f(ctx, server) })
}

// IsNil reports whether there is no client, also where a failed constructor of the
// caller has left a nil pointer in the interface.
func IsNil(rdb redis.UniversalClient) bool {
	if rdb == nil {
		return true
	}
	v := reflect.ValueOf(rdb)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

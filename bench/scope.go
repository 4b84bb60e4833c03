package main

import (
	"context"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A scope is where one part is measured. Whatever is started in it ends with
// it, so that no part takes time from the next one.
type scope struct {
	redistest.Scope
	out    io.Writer // for parts that print their figures themselves
	rounds int       // turns of each contestant
	brief  bool      // it is a test: only that everything works is wanted
}

// amount returns full, or brief in a test. A part keeps both numbers side by
// side, at the place where they are used.
func amount[T any](s *scope, full, brief T) T {
	if s.brief {
		return brief
	}
	return full
}

// client returns a Client of this library that is closed at the end.
func (s *scope) client(rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.Client {
	c := rratelimiter.New(rdb, opts...)
	s.Cleanup(func() { _ = c.Close() }) // it returns no error but that it was closed before
	return c
}

// peer starts the JVM in which Redisson runs. It ends with the scope.
func (s *scope) peer(ctx context.Context) (*javapeer.Peer, error) {
	peer, err := javapeer.Start(ctx, "")
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = peer.Close() }) // all its figures have arrived by then
	return peer, nil
}

// patient is an option for clients whose pool thousands of callers share. The
// size of the pool stays go-redis's own, 10 connections for each core.
func patient(o *redis.Options) { o.PoolTimeout = poolTimeout }

// poolTimeout is longer than the longest batch: no caller gives up in a pool,
// which would be an error instead of a latency.
const poolTimeout = 5 * time.Minute

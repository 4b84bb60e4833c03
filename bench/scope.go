package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// scope is where a part is measured: what is started in it ends with it.
type scope struct{ redistest.Scope }

// client returns a Client of this library, closed at the end.
func (s *scope) client(rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.Client {
	c := rratelimiter.New(rdb, opts...)
	s.Cleanup(func() { _ = c.Close() }) // it answers no error
	return c
}

// patient is for clients whose pool thousands of callers wait for. The size of
// the pool stays go-redis' own, 10 connections for each core.
func patient(o *redis.Options) { o.PoolTimeout = poolTimeout }

const poolTimeout = 5 * time.Minute

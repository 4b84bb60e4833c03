package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"errors"
	"fmt"
	"github.com/redisson-go/rratelimiter"
	"slices"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// scope is the redistest.TB of a program: what is started in it ends with it.
type scope struct{ cleanups []func() }

var _ redistest.TB = (*scope)(nil)

// Helper does nothing: no line numbers are printed.
func (*scope) Helper() {}

// Name is asked for by nobody.
func (*scope) Name() string { return "bench" }

// Logf says nothing: only the figures are wanted.
func (*scope) Logf(string, ...any) {}

// Cleanup keeps f for the end.
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf ends the scope with an error.
func (*scope) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Skipf is Fatalf: a program that cannot do its work says so.
func (s *scope) Skipf(format string, args ...any) { s.Fatalf(format, args...) }

// failure is what Fatalf panics with.
type failure struct{ error }

// end runs the cleanups, the last one first. cause is what was recovered: the
// end by Fatalf becomes an error, any other panic goes on.
func (s *scope) end(cause any, err *error) {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	s.cleanups = nil
	if f, ok := cause.(failure); ok {
		*err = errors.Join(*err, f.error)
	} else if cause != nil {
		panic(cause)
	}
}

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

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// claims are the commands that take something and run a command: 2 of 5 permits, or a lock.
var claims = []string{"acquire api -n 2", "reserve api 2", "lock x"}

// fives returns a server with the limiter api of 5 permits.
func fives(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	steps(t, server.Addr, step{"set api 5 1h", 0, "set", ""})
	return server
}

// isTaken reports whether permits of api are outstanding, or the lock x is held.
func isTaken(t *testing.T, s *redistest.Server, claim string) bool {
	t.Helper()
	if strings.HasPrefix(claim, "lock") {
		return s.Admin().Exists(t.Context(), "x").Val() > 0
	}
	l := redistest.Must(inspect.Read(t.Context(), s.Client(t), "api", inspect.Few))(t)
	return l.Shared().Outstanding > 0
}

// held returns a lock that a service holds.
func held(t *testing.T, server *redistest.Server, name string) *rlock.Hold {
	t.Helper()
	c := rratelimiter.New(server.Client(t))
	t.Cleanup(func() { _ = c.Close() })
	return redistest.Must(rlock.New(c).Lock(name).Lock(t.Context()))(t)
}

// free checks that a lock is free.
func free(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	if all := server.Admin().HGetAll(t.Context(), name).Val(); len(all) > 0 {
		t.Errorf("%s is held: %v", name, all)
	}
}

// untilWaiting returns when a client has subscribed to the messages that end a wait.
func untilWaiting(t *testing.T, server *redistest.Server) {
	t.Helper()
	redistest.Until(t, "rrl waits", func() error {
		channels, err := server.Admin().PubSubChannels(t.Context(), "*").Result()
		if err == nil && len(channels) == 0 {
			err = errors.New("no subscription")
		}
		return err
	})
}

// A call that is interrupted before its reply arrives takes nothing and runs nothing.
func TestInterruptedBeforeTheReply(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"acquire api", "acquire api -- echo ran", "acquire api --timeout 1m",
		"acquire api --wait -- echo ran", "reserve api 2", "reserve api 2 --wait 1m -- echo ran",
		"lock x --lease 1h", "lock x --lease 1h --wait 0", "lock x -- echo ran",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			s := fives(t)
			proxy := redistest.StartProxy(t, s.Addr)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			proxy.ObserveReplies(func() {
				if s.Admin().Exists(t.Context(), "{api}:permits", "x").Val() > 0 {
					cancel()
				}
			})
			line := append([]string{"--redis", proxy.Addr}, strings.Fields(args)...)
			code, stdout, stderr := rrl(ctx, line...)
			if code != exitInterrupted || stdout != "" {
				t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
			}
			redistest.Until(t, "permits and lock are given back", func() error {
				if isTaken(t, s, args) {
					return errors.New("still taken")
				}
				return nil
			})
		})
	}
}

type unwritable struct{ err error }

func (u unwritable) Write([]byte) (int, error) { return 0, u.err }

// Permits or a lock are given back if the result cannot be printed.
func TestResultsThatCannotBePrintedAreGivenBack(t *testing.T) {
	t.Parallel()
	s := fives(t)
	full := unwritable{errors.New("no space left on device")}
	for args, out := range map[string][2]io.Writer{
		"acquire api":                  {full, io.Discard},
		"acquire api --json":           {full, io.Discard},
		"acquire api --json -- true":   {io.Discard, full},
		"reserve api 2":                {full, io.Discard},
		"reserve api 2 --json":         {full, io.Discard},
		"reserve api 2 --json -- true": {io.Discard, full},
		"lock x --lease 1h":            {full, io.Discard},
		"lock x --lease 1h --json":     {full, io.Discard},
		"lock x --json --fair -- true": {io.Discard, full},
	} {
		args := append([]string{"--redis", s.Addr}, strings.Fields(args)...)
		if code := run(t.Context(), args, nil, out[0], out[1]); code != exitError || isTaken(t, s, args[2]) {
			t.Errorf("%q: code %d", args, code)
		}
	}
}

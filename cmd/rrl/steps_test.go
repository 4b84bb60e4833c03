package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A step is a command line, and what comes of it.
type step struct {
	args           string // split at spaces
	code           int
	stdout, stderr string // what they contain; empty: nothing is there
}

// steps runs command lines against a server, one after the other, with something on stdin.
func steps(t *testing.T, server *redistest.Server, stdin string, list ...step) {
	t.Helper()
	for _, s := range list {
		args := append([]string{"--redis", server.Addr}, strings.Fields(s.args)...)
		code, stdout, stderr := typed(t.Context(), stdin, args...)
		stdout = regexp.MustCompile(`\s+`).ReplaceAllString(stdout, " ") // JSON in one line
		if code != s.code || !says(stdout, s.stdout) || !says(stderr, s.stderr) {
			t.Errorf("rrl %s: code %d, want %d, with %q on stdout and %q on stderr; printed\n%s\n%s",
				s.args, code, s.code, s.stdout, s.stderr, stdout, stderr)
		}
	}
}

// has checks the value of a limiter; an empty one is for none.
func has(t *testing.T, server *redistest.Server, name, want string) {
	t.Helper()
	got, err := server.Admin().Get(t.Context(), "{"+name+"}:value").Result()
	if err != nil && !errors.Is(err, redis.Nil) || got != want {
		t.Errorf("the value of %s is %q, %v; want %s", name, got, err, want)
	}
}

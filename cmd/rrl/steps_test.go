package main

import (
	"regexp"
	"strings"
	"testing"
)

// A step is a command line and its result.
type step struct {
	args           string // split at spaces
	code           int
	stdout, stderr string // parts of them; empty if nothing is printed
}

// on runs a command line against the Redis at an address.
func on(t *testing.T, address, args string) (code int, stdout, stderr string) {
	return rrl(t.Context(), append([]string{"--redis", address}, strings.Fields(args)...)...)
}

// steps runs command lines against the Redis at an address in turn.
func steps(t *testing.T, address string, list ...step) {
	t.Helper()
	for _, s := range list {
		code, stdout, stderr := on(t, address, s.args)
		stdout = regexp.MustCompile(`\s+`).ReplaceAllString(stdout, " ") // JSON in one line
		if code != s.code || !says(stdout, s.stdout) || !says(stderr, s.stderr) {
			t.Errorf("rrl %s: code %d, want %d, with %q on stdout and %q on stderr; printed\n%s\n%s",
				s.args, code, s.code, s.stdout, s.stderr, stdout, stderr)
		}
	}
}

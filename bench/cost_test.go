package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// All of it, with too few calls to mean anything.
func TestCost(t *testing.T) {
	needs(t, "redis-server", "java", "mvn")
	var out strings.Builder
	if err := run(t.Context(), &out, brief(""), []string{"cost"}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`granted +floor +[\d.]+ +\d+ +\d+ +1 +\d+ +4 +0\.0 +\d+$`,
		`granted +bare +[\d.]+ +\d+ +\d+ +1 +\d+ +4 +[\d.]+ +\d+$`,
		`steady +rratelimiter +[\d.]+ +\d+ +\d+ +1 +\d+ +4 +[\d.]+ +\d+$`,
		`cold +rratelimiter +[\d.]+ +\d+ +\d+ +1 +\d+ +4 +- +\d+$`,
		`refused +Redisson 4\S+ +[\d.]+ +\d+ +\d+ +1 +\d+ +\d+ +[\d.]+ +-$`,
		`Redis time, rratelimiter / Redisson( +\d+\.\d\d){4}`,
		`p50 in turns, rratelimiter / floor( +\d+\.\d\d){4}`,
		`round trips, rratelimiter / Redisson( +1\.00){4}`,
		`steady +rratelimiter +.*zadd`,
		`refused +Redisson \S+ +get, 4 hget, `,
	} {
		if !regexp.MustCompile(`(?m)^ *` + line).MatchString(out.String()) {
			t.Errorf("no line like %s", line)
		}
	}
	if t.Failed() {
		t.Log("printed:\n" + out.String())
	}
}

// A run that is ended in the middle leaves nothing behind either (TestMain).
func TestCostEndsWithContext(t *testing.T) {
	needs(t, "java", "mvn")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	o := options{rounds: 1}
	if err := run(ctx, new(strings.Builder), o, []string{"cost"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestScope(t *testing.T) {
	var order []string
	failing := func() (err error) {
		var s redistest.Scope
		defer func() { s.End(recover(), &err) }()
		s.Cleanup(func() { order = append(order, "first") })
		s.Cleanup(func() { order = append(order, "last") })
		s.Skipf("no %s", "program")
		return nil
	}
	if err := failing(); err == nil || err.Error() != "no program" {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(order, " "); got != "last first" {
		t.Errorf("cleanups ran in the order %s", got)
	}
	defer func() {
		if recover() != "bug" {
			t.Error("a panic that is none of ours was held up")
		}
	}()
	var s redistest.Scope
	s.End("bug", nil)
}

// The commands inside one script, without the script itself and what measures.
func TestInside(t *testing.T) {
	u := usage{commands: map[string]command{
		"evalsha": {4, 42}, "hget": {16, 5}, "get": {4, 1}, "set": {1, 1}, "info": {1, 9},
	}}
	if got := times(u.inside(4)); got != "get, 4 hget, 0.25 set" {
		t.Errorf("inside: %q", got)
	}
	if got := times(map[string]float64{"get": 1.001, "ping": 0.001}); got != "get" {
		t.Errorf("inside: %q", got)
	}
	u.add(usage{commands: map[string]command{"get": {2, 3}, "del": {1, 1}}})
	if u.commands["get"] != (command{6, 4}) || u.commands["del"] != (command{1, 1}) {
		t.Errorf("added: %v", u)
	}
}

// A limiter that does not answer as its state has it is an error, not a figure.
func TestStateCheck(t *testing.T) {
	grants, refuses := states[0], states[len(states)-1]
	if err := errors.Join(grants.check(5, 5), refuses.check(0, 5), refuses.check(anyGrants, 5)); err != nil {
		t.Error(err)
	}
	if grants.check(4, 5) == nil || refuses.check(1, 5) == nil {
		t.Error("a wrong answer was accepted")
	}
}

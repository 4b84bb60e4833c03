package main

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// All of it, with too few calls to mean anything.
func TestRun(t *testing.T) {
	for _, program := range []string{"redis-server", "java", "mvn"} {
		redistest.Require(t, program)
	}
	var out strings.Builder
	few := plan{rounds: 2, budget: time.Minute, batch: 10, cold: 2, wire: 3, warmup: 10 * time.Millisecond}
	if err := run(t.Context(), &out, few); err != nil {
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

// An end in the middle leaves nothing behind either (TestMain).
func TestRunEndsWithContext(t *testing.T) {
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := run(ctx, new(strings.Builder), full); !errors.Is(err, context.DeadlineExceeded) {
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

func TestUsages(t *testing.T) {
	u, err := parseUsages("# Commandstats\r\n" +
		"cmdstat_evalsha:calls=4,usec=42,usec_per_call=10.50,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_hget:calls=16,usec=5,usec_per_call=0.31,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_get:calls=4,usec=1,usec_per_call=0.25\r\n" +
		"cmdstat_set:calls=1,usec=1,usec_per_call=1.00\r\n" +
		"cmdstat_config|resetstat:calls=1,usec=9,usec_per_call=9.00\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := u.ofScripts(4); got != 10.5 || err != nil {
		t.Errorf("time of a script: %v, %v", got, err)
	}
	if _, err := u.ofScripts(5); err == nil {
		t.Error("somebody else's script was counted")
	}
	if got := times(u.inside(4)); got != "get, 4 hget, 0.25 set" {
		t.Errorf("inside: %q", got)
	}
	if got := times(map[string]float64{"get": 1.001, "ping": 0.001}); got != "get" {
		t.Errorf("inside: %q", got)
	}
	if _, err := parseUsages("cmdstat_get:calls=many\r\n"); err == nil {
		t.Error("a line that cannot be read was accepted")
	}
}

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		values []float64
		part   float64
		want   float64
	}{
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.50, 2},
		{[]float64{4, 3, 2, 1}, 0.50, 2},
		{[]float64{4, 3, 2, 1}, 0.99, 4},
		{[]float64{4, 3, 2, 1}, 0, 1},
	} {
		if got := quantile(test.values, test.part); math.Abs(got-test.want) > 0 {
			t.Errorf("quantile %g of %v is %g, want %g", test.part, test.values, got, test.want)
		}
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

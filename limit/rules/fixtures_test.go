package rules_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// parsed returns the Set of a file without mistakes.
func parsed(t testing.TB, text string) *rules.Set {
	t.Helper()
	return redistest.Must(rules.Parse([]byte(text)))(t)
}

func inMemory(t testing.TB, text string) *rules.Rules {
	t.Helper()
	return redistest.Must(rules.New(rules.InMemory(), parsed(t, text)))(t)
}

func get(path string) rules.Call { return rules.Call{Method: "GET", Path: path} }

// of returns a call of "/" by a user.
func of(user string) rules.Call {
	c := get("/")
	c.User = known(user)
	return c
}

func known(text string) func() (string, error) { return func() (string, error) { return text, nil } }

// with adds header fields to a call, from names and values in turn.
func with(c rules.Call, fields ...string) rules.Call {
	header := map[string][]string{}
	for i := 0; i < len(fields); i += 2 {
		header[fields[i]] = append(header[fields[i]], fields[i+1])
	}
	c.Header = func(name string) []string { return header[name] }
	return c
}

// allow asks for permits, without an error.
func allow(t testing.TB, r *rules.Rules, call rules.Call, n int64) rules.Grant {
	t.Helper()
	g, err := r.Allow(context.Background(), call, n)
	if err != nil {
		t.Fatalf("%s %s: %v", call.Method, call.Path, err)
	}
	return g
}

func fails(t *testing.T, want error, r *rules.Rules, call rules.Call, n int64) {
	t.Helper()
	_, err := r.Allow(t.Context(), call, n)
	formtest.Fails(t, want, err)
}

// wantAllowed expects permits to be granted one by one, and then a refusal.
func wantAllowed(t testing.TB, r *rules.Rules, call rules.Call, permits int) {
	t.Helper()
	for i := range permits {
		if g := allow(t, r, call, 1); !g.Allowed {
			t.Fatalf("refused after %d, want %d: %+v", i, permits, g.Result)
		}
	}
	if g := allow(t, r, call, 1); g.Allowed {
		t.Fatalf("allowed %d, want %d: %+v", permits+1, permits, g.Result)
	}
}

// each returns the results of all limits that were asked.
func each(g rules.Grant) []limit.Result {
	switch {
	case g.Each != nil:
		return g.Each
	case g.Policy == "":
		return nil
	}
	return []limit.Result{g.Result}
}

// policies returns the names of all limits that were asked.
func policies(g rules.Grant) string {
	var all []string
	for _, r := range each(g) {
		all = append(all, r.Policy)
	}
	return strings.Join(all, " ")
}

// slashed returns a rate as a file has it.
func slashed(rate int64, interval time.Duration) string { return fmt.Sprintf("%d/%v", rate, interval) }

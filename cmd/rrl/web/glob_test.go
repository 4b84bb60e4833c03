package web

import (
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestPatternsMatchAsInRedis(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	names := []string{"a", "b", "ab", "abc", "aXc", "a*c", "a?", "[a]", "]", `a\b`, "a-b", "^",
		"user:1:x", "user:", "\xff", "a\nb"}
	for _, name := range names {
		rdb.Set(t.Context(), name, 1, 0)
	}
	for _, pattern := range []string{
		"*", "a", "a*", "*a", "*a*", "a*c", "a?c", "?", "??", "a\\*c", "a\\?", "[ab]", "[^ab]", "[a-b]",
		"[b-a]", "a[^x-z]c", "[]", "[",
		"[a", "\\", "a\\", "\\[a\\]", "[\\]]", "user:*:x", "**", "a**c", "*:*", "[a-", "x*", "*\n*", "",
		"[^]", "a[*]c",
	} {
		found := map[string]bool{}
		for _, key := range rdb.Keys(t.Context(), pattern).Val() {
			found[key] = true
		}
		g := newGlob(pattern)
		for _, name := range names {
			if got := g.matches(name); got != found[name] {
				t.Errorf("%q and %q: %v, in Redis %v", pattern, name, got, found[name])
			}
		}
	}
}

func TestManyStarsTakeBoundedTime(t *testing.T) {
	start := time.Now()
	if newGlob(strings.Repeat("*a", 50) + "b").matches(strings.Repeat("a", 10_000)) {
		t.Error("it matches")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

package redistest_test

import (
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestRounds(t *testing.T) {
	usual := 7
	if testing.Short() {
		usual = 1
	}
	for text, want := range map[string]int{"": usual, "1": 7, "10": 70} {
		t.Setenv("ROUNDS", text)
		if n := redistest.Rounds(t, 7); n != want {
			t.Errorf("ROUNDS=%s: %d rounds, want %d", text, n, want)
		}
	}
	for _, text := range []string{"0", "-1", "many"} {
		t.Setenv("ROUNDS", text)
		f := new(fakeTB).run(func(t redistest.TB) { redistest.Rounds(t, 7) })
		if f.outcome != "failed" || !strings.Contains(f.said, text) {
			t.Errorf("ROUNDS=%s: %s, saying %q", text, f.outcome, f.said)
		}
	}
}

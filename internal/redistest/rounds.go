package redistest

import (
	"os"
	"strconv"
	"testing"
)

// Thorough skips a test that belongs to make test ALL=1 alone: with -short, as in make test.
func Thorough(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("of make test ALL=1: -short is set")
	}
}

// Rounds returns how many random rounds a test plays: n, or ROUNDS times n if the environment sets ROUNDS,
// or else a quarter of n with -short.
func Rounds(t TB, n int) int {
	t.Helper()
	text := os.Getenv("ROUNDS")
	if text == "" && testing.Testing() && testing.Short() {
		return max(1, n/4)
	}
	if text == "" {
		return n
	}
	times, err := strconv.Atoi(text)
	if err != nil || times < 1 {
		t.Fatalf("ROUNDS is %q, must be a number from 1 on", text)
	}
	return times * n
}

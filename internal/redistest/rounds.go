package redistest

import (
	"os"
	"strconv"
)

// Rounds returns how many rounds a spec plays that draws them at random: n, or ROUNDS times
// as many if the environment has it. So n is what finds a fault that is easy to find.
func Rounds(t TB, n int) int {
	t.Helper()
	text := os.Getenv("ROUNDS")
	if text == "" {
		return n
	}
	times, err := strconv.Atoi(text)
	if err != nil || times < 1 {
		t.Fatalf("ROUNDS is %q, must be a number from 1 on", text)
	}
	return times * n
}

package words_test

import (
	"math"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// A name is never an instruction to a terminal.
func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"api:{user}": "api:{user}", "日本語": "日本語", `a\b`: `a\b`,
		"": `""`, "a b": `"a b"`, `"`: `"\""`, "\x1b[2J": `"\x1b[2J"`, "\xff": `"\xff"`,
		"\u202ea": `"\u202ea"`,
	} {
		if got := words.Name(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0s", 250: "250ms", -5: "-5ms", 1000: "1s", 1500: "1.5s", 60_000: "1m", 90_000: "1m30s",
		600_000: "10m", 3_600_000: "1h", 3_601_000: "1h0m1s", 36_000_000: "10h", 86_400_000: "24h",
		1 << 53: "9007199254740992ms", math.MinInt64: "-9223372036854775808ms",
	} {
		if got := words.Span(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}

// URLs are printed without a password, and what Redis says of a command that it does not know without the
// arguments: AUTH has a password.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2Jb":                      "a\ufffd[2Jb",
		`PERMITS is "redis://u:p@q@h:1"`: `PERMITS is "redis://***@h:1"`,
		"ERR unknown command 'auth', with args beginning with: 'user' 'secret'": "ERR unknown command 'auth'",
	} {
		if got := words.Harmless(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

package golden_test

import (
	"math"
	"testing"

	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/internal/words"
)

func TestTimeless(t *testing.T) {
	for text, want := range map[string]string{
		"2026-07-31T08:39:59.999Z":           "DATE",
		"2000-01-01T05:30:00+05:30":          "DATE",
		"at 2000-01-01 00:00:41.000 UTC":     "atDATE",
		"00:01:30.500":                       "CLOCK",
		`"ttl_ms": 5, "at_ms": 0`:            `"ttl_ms":N,"at_ms":N`,
		"token 946684811001000":              "tokenN",
		"debt 24, paid in 1h0m0.5s":          "debt24,paidinTIME",
		"in 1h, as\n    ever":                "inTIME,asever",
		"  00:00:01.000   -5ms       30  \n": "CLOCKTIME30\n",
		// Other words stay.
		`"ttl_ms":-1`: `"ttl_ms":-1`, "5fields": "5fields", "session:ID.1": "session:ID.1", "[75]": "[75]",
		"Bc0I/16": "Bc0I/16", "1minute": "1minute", "a1ms": "a1ms",
		"5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52": "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52",
	} {
		if got := golden.Timeless(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	// Each form of words.Span is a time.
	for _, ms := range []int64{0, 1, 999, 1000, 1500, 59_999, 60_000, 61_010, 3_600_000, 3_601_000, 3_660_000,
		360_000_000_001, 1 << 53, math.MaxInt64, math.MinInt64} {
		for _, span := range []string{words.Span(ms), words.Span(-ms)} {
			if got := golden.Timeless("dead since " + span + ": x"); got != "deadsinceTIME:x" {
				t.Errorf("%q becomes %q", span, got)
			}
		}
	}
}

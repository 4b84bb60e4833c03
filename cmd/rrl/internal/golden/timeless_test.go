package golden_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/internal/words"
)

// spans are durations in ms, of each form that words.Span has: with and without each unit, the fraction of a
// second in one to three digits, negative, longer than a time.Duration.
func spans() (all []int64) {
	for _, h := range []int64{0, 1, 2, 24, 100_000} {
		for _, m := range []int64{0, 1, 10, 59} {
			for _, s := range []int64{0, 1, 10, 59} {
				for _, ms := range []int64{0, 1, 10, 100, 250, 999} {
					span := ((h*60+m)*60+s)*1000 + ms
					all = append(all, span, -span)
				}
			}
		}
	}
	return append(all, 1<<53, math.MaxInt64, math.MinInt64)
}

func TestEverySpanIsTimeless(t *testing.T) {
	for _, ms := range spans() {
		span := words.Span(ms)
		for _, line := range []func(span string) string{
			func(span string) string { return span },
			func(span string) string { return "debt 24, paid in " + span + "\n" },
			func(span string) string { return "for " + span + " unless it is renewed" },
			func(span string) string { return "dead since " + span + ": the waiters" },
			func(span string) string { return "1 permit in " + span + ", 5 permits in " + span },
			func(span string) string { return "  00:00:01.000   " + span + "       30  " },
		} {
			got, want := golden.Timeless(line(span)), golden.Timeless(line("1.5s"))
			if got != want {
				t.Errorf("%d ms, %q: got %q, want %q", ms, line(span), got, want)
			}
		}
	}
}

func TestEveryTimeIsTimeless(t *testing.T) {
	east, west := time.FixedZone("", 5*3600+1800), time.FixedZone("", -8*3600)
	for _, at := range []time.Time{
		time.UnixMilli(0), time.UnixMilli(946684800_000), time.UnixMilli(1785499199_999),
		time.UnixMilli(1785499199_990), time.UnixMilli(1785499200_100), time.UnixMilli(1785499200_000),
	} {
		for _, in := range []*time.Location{time.UTC, east, west} {
			text, err := json.Marshal(at.In(in))
			if err != nil || golden.Timeless(string(text)) != `"DATE"` {
				t.Errorf("%s becomes %s (%v)", text, golden.Timeless(string(text)), err)
			}
		}
		for layout, want := range map[string]string{
			"2006-01-02 15:04:05.000 MST": "DATE", time.RFC3339: "DATE", "15:04:05.000": "CLOCK",
			time.TimeOnly: "CLOCK",
		} {
			if text := at.UTC().Format(layout); golden.Timeless(text) != want {
				t.Errorf("%s becomes %s", text, golden.Timeless(text))
			}
		}
	}
}

// Words that are not a time stay as they are, except for blanks.
func TestWhatIsNoTimeStays(t *testing.T) {
	for _, text := range []string{
		`"ttl_ms":-1`, "5fields", "value-24", "session:ID.1", "none", "Bc0I/16", "[75]", "1minute", "a1ms",
		"0records", "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52",
	} {
		if got := golden.Timeless(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got := golden.Timeless(`"ttl_ms": 5, "at_ms": 0`); got != `"ttl_ms":N,"at_ms":N` {
		t.Error(got)
	}
	if a, b := golden.Timeless("in 1h, as\n    ever"), golden.Timeless("in\n    1h0m0.5s, as ever"); a != b {
		t.Errorf("%q and %q", a, b)
	}
}

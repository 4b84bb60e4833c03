package web

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// No two texts look the same, and none is more than text on the page.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"orders:1": "orders:1", "a\nb": `a\nb`, `a\nb`: `a\\nb`, "\x00": `\x00`, "\xff": `\xff`, "ü": "ü",
		"\u202e": `\u202e`,
		"\u200b": `\u200b`, "'": "'", `"`: `"`, "\ufffd": "\ufffd", "": "",
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567",
		-1234: "−1,234"} {
		if got := number(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for ms, want := range map[int64]string{
		0: "0 ms", 999: "999 ms", 1000: "1 s", 1550: "1.5 s", 60_000: "1 min", 125_000: "2 min 5 s",
		3_600_000: "1 h",
		3_660_000: "1 h 1 min", 93_600_000: "1 d 2 h", 1 << 53: "104,249,991 d 8 h", -5: "−5 ms",
	} {
		if got := span(ms); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
	if got := cut(strings.Repeat("ü", 101)); got != strings.Repeat("ü", 99)+"…" {
		t.Errorf("%s", got)
	}
}

// A pattern matches what it matches in Redis, or is refused.
func TestPatternsMatchAsInRedis(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	names := []string{"a", "b", "ab", "abc", "aXc", "a*c", "a?", "[a]", "]", `a\b`, "a-b", "^", "a/b", "/",
		"user:1:x", "user:", "\xff", "a\nb"}
	for _, name := range names {
		rdb.Set(t.Context(), name, 1, 0)
	}
	for _, pattern := range []string{
		"*", "a", "a*", "*a", "*a*", "a*c", "a?c", "?", "??", "a\\*c", "a\\?", "[ab]", "[^ab]", "[a-b]",
		"a[^x-z]c", "\\[a\\]", "[\\]]", "user:*:x", "**", "a**c", "*:*", "x*", "*\n*", "a[*]c", "a/*",
		"a[/]b", strings.Repeat("*a", 50) + "b",
	} {
		h := &Handler{config: Config{Match: pattern}}
		if err := h.config.complete(); err != nil {
			t.Error(err)
		}
		found := map[string]bool{}
		for _, key := range rdb.Keys(t.Context(), pattern).Val() {
			found[key] = true
		}
		for _, name := range names {
			if got := h.matches(name); got != found[name] {
				t.Errorf("%q and %q: %v, in Redis %v", pattern, name, got, found[name])
			}
		}
	}
	for _, pattern := range []string{"[", "[a", "\\", "a\\", "[a-", "[]"} {
		if err := (&Config{Match: pattern}).complete(); err == nil {
			t.Errorf("%q is not refused", pattern)
		}
	}
}

// Masks of 20,000 names are known at a time.
func TestMasksAreBounded(t *testing.T) {
	m := newMasks()
	first := m.mask("0")
	for i := range 20_000 {
		m.mask(strconv.Itoa(i))
	}
	if text, ok := m.unmask(first); !ok || text != "0" {
		t.Errorf("%q, %v", text, ok)
	}
	m.mask("another")
	if _, ok := m.unmask(first); ok || len(m.of) != 1 {
		t.Errorf("%d masks are known", len(m.of))
	}
}

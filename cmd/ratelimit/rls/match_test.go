package rls

import (
	_ "embed" // testdata
	"fmt"
	"slices"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// nested is the configuration for metrics with values: keys with a flag each, one below another.
func nested(flags ...string) string {
	text := "domain: d\n"
	for i, flag := range flags {
		indent := strings.Repeat("  ", i)
		text += indent + "descriptors:\n" + indent + "- key: k" + string(rune('1'+i)) + "\n"
		if flag != "-" {
			text += indent + "  " + flag + ": true\n"
		}
	}
	return text + strings.Repeat("  ", len(flags)) + "rate_limit: {unit: minute, requests_per_unit: 60}\n"
}

//go:embed testdata/match.txt
var matches string

// Each row of testdata/match.txt comes out as it says.
func TestMatchingIsThatOfTheReference(t *testing.T) {
	for row := range strings.Lines(matches) {
		if row == "\n" || strings.HasPrefix(row, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "\n"), " | ")
		config := configs[cells[1]]
		if flags, is := strings.CutPrefix(cells[1], "nested "); is {
			config = nested(strings.Fields(flags)...)
		}
		m, got := mustParse(t, config).find(t, cells[2]), "none"
		if m.rule != nil {
			got = fmt.Sprint(m.rule.rate, " ", m.metric)
		}
		if got != cells[3] {
			t.Errorf("%s: %s: %s, want %s", cells[0], cells[2], got, cells[3])
		}
	}
}

// find returns the match of a descriptor in domain d, without a rule if there is none.
func (c *Config) find(t *testing.T, text string) match {
	t.Helper()
	return redistest.Must(c.domains["d"].match(request("d", text).GetDescriptors()[0]))(t)
}

// Different entries have different counters, whatever characters are in them.
func TestKeysOfCountersAreUnambiguous(t *testing.T) {
	long := strings.Repeat("x", 2000)
	keys := make(map[string]string)
	for _, pairs := range [][]string{
		{"a_b", "c"}, {"a", "b_c"}, {"a", "b|c=d"}, {"a", "b", "c", "d"}, {"a", "b%7Cc=d"}, {"a", ""},
		{"a", "="}, {"a", "{b}"}, {"a", "\x00"}, {"a", long}, {"a", long + "x"},
		{"a", "sha256:"}, {"a", "ä"},
	} {
		var entries []*ratelimit.RateLimitDescriptor_Entry
		for pair := range slices.Chunk(pairs, 2) {
			entries = append(entries, &ratelimit.RateLimitDescriptor_Entry{Key: pair[0], Value: pair[1]})
		}
		key := counterKey(entries, nil)
		if other, there := keys[key]; there {
			t.Errorf("%.40q and %.40q share the key %q", pairs, other, key)
		}
		if len(key) > maxKey || strings.ContainsAny(key, "{}") || key == "" {
			t.Errorf("%.40q has the key %q", pairs, key)
		}
		keys[key] = strings.Join(pairs, " ")
	}
}

// An interval that Envoy has no unit for is shown by name: Envoy would show the window of another unit.
func TestAnIntervalIsShownByItsUnitOrByName(t *testing.T) {
	for keys, want := range map[string]string{
		"unit: minute": "MINUTE", "interval: 1m": "MINUTE", "interval: 24h": "DAY", "unit: month": "MONTH",
		"interval: 10s": "UNKNOWN 7 per 10s", "interval: 5m": "UNKNOWN 7 per 5m0s",
		"interval: 10s, name: few": "UNKNOWN few", "unlimited: true": "UNKNOWN",
	} {
		got := mustParse(t, limited(keys+", requests_per_unit: 7")).find(t, "a=x").rule.current
		if shown := strings.TrimSpace(got.Unit.String() + " " + got.Name); shown != want {
			t.Errorf("%s is shown as %s, want %s", keys, shown, want)
		}
	}
}

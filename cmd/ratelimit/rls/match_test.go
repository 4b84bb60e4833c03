package rls

import (
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
		if flag != "" {
			text += indent + "  " + flag + ": true\n"
		}
	}
	return text + strings.Repeat("  ", len(flags)) + "rate_limit: {unit: minute, requests_per_unit: 60}\n"
}

// Each row retells a case of the reference service's config_test.go: which limit a descriptor has, and
// under which path its metrics are.
func TestMatchingIsThatOfTheReference(t *testing.T) {
	detailed := "domain: d\ndescriptors:\n- key: k2\n  detailed_metric: true\n  rate_limit: {unit: minute, " +
		"requests_per_unit: 500}\n  descriptors:\n  - {key: k3, detailed_metric: true}\n" +
		"  - {key: k3, value: v3, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 5}}"
	vtm, dm := "value_to_metric", "detailed_metric"
	for _, c := range []struct {
		of     string // the test of the reference
		config string
		pairs  string // as request reads a descriptor
		rate   int64  // 0 for no limit
		metric string
	}{
		{"Basic", basic, "", 0, ""},
		{"Basic", basic, "key1=something", 0, ""},
		{"Basic", basic, "key1=value1", 0, ""},
		{"Basic", basic, "key2=value2 subkey=subvalue", 0, ""},
		{"Basic", basic, "key5=value5 subkey5=subvalue", 0, ""},
		{"Basic", basic, "key5=value5 subkey5=subvalue5", 25, "d.key5_value5.subkey5_subvalue5"},
		{"Basic", basic, "key1=value1 subkey1=something", 5, "d.key1_value1.subkey1"},
		{"Basic", basic, "key1=value1 subkey1=subvalue1", 10, "d.key1_value1.subkey1_subvalue1"},
		{"Basic", basic, "key2=something", 20, "d.key2"},
		{"Basic", basic, "key2=value2", 30, "d.key2_value2"},
		{"Basic", basic, "key2=value3", 0, ""},
		{"Basic", basic, "key3=foo", 1, "d.key3"},
		{"Basic", basic, "key7=unspecified", 70, "d.key7_unspecified"},
		{"Override", basic, "key1=value1 subkey1=something@42", 42, "d.key1_value1.subkey1_something"},
		{"Wildcard", withPatterns, "noVal=foo1", 20, "d.noVal"},
		{"Wildcard", withPatterns, "wild=foo1", 20, "d.wild_foo*"},
		{"Wildcard", withPatterns, "wild=bar", 0, ""},
		{"Wildcard", withPatterns, "noWild=foo1", 0, ""},
		{"Wildcard", withPatterns, "nestedWild=val1 wild=goo2", 20, "d.nestedWild_val1.wild_goo*"},
		{"Wildcard", withPatterns, "midWild=barab", 20, "d.midWild_bar*b"},
		{"Wildcard", withPatterns, "midWild=barb", 20, "d.midWild_bar*b"},
		{"Wildcard", withPatterns, "midWild=bara", 0, ""},
		{"Wildcard", withPatterns, "midWild=xbarb", 0, ""},
		{"Wildcard", withPatterns, "midWild=ba", 0, ""},
		{"Wildcard", withPatterns, "multiWild=foo123bar456baz", 10, "d.multiWild_foo*bar*baz"},
		{"Wildcard", withPatterns, "multiWild=foobarbaz", 10, "d.multiWild_foo*bar*baz"},
		{"Wildcard", withPatterns, "multiWild=foo123baz", 0, ""},
		{"Wildcard", withPatterns, "multiWild=bar456baz", 0, ""},
		{"WildcardStats", withPatterns, "runtime=foo1bar2", 20, "d.runtime_foo1bar2"},
		{"DetailedMetric", detailed, "k2=v", 500, "d.k2_v"},
		{"DetailedMetric", detailed, "k2=v k3=v3", 5, "d.k2_v.k3_v3"},
		{"DetailedMetric", detailed, "k2=v k3=other", 0, ""},
		{"DetailedMetric", nested(dm, dm), "k1=a k2=b", 60, "d.k1_a.k2_b"},
		{"DetailedMetric", nested("", ""), "k1=a k2=b", 60, "d.k1.k2"},
		{"ValueToMetric runtime", nested(vtm, vtm, ""), "k1=a k2=b k3=c", 60, "d.k1_a.k2_b.k3"},
		{"ValueToMetric mid", nested("", vtm, ""), "k1=X k2=Y k3=Z", 60, "d.k1.k2_Y.k3"},
		{"ValueToMetric detailed", nested(vtm, vtm, dm), "k1=a k2=b k3=c", 60, "d.k1_a.k2_b.k3_c"},
		{"ValueToMetric empty", nested(vtm, vtm, ""), "k1= k2=b k3=c", 60, "d.k1.k2_b.k3"},
		{"ValueToMetric empty", nested(vtm, vtm, ""), "k1= k2= k3=c", 60, "d.k1.k2.k3"},
		{"ShareThreshold", withShares, "files=files/a.pdf", 100, "d.files_files/*"},
		{"ShareThreshold", withShares, "route=api/v1 method=GET", 60, "d.route_api/*.method"},
		{"ShareThreshold", withShares, "service=svc/user endpoint=get", 80, "d.service_svc/*.endpoint_get"},
		{"ShareThreshold", withShares, "nested=parent files=nested/1", 200, "d.nested_parent.files_nested/*"},
		{"ShareThreshold", withShares, "files=top/1 files=nested/1", 300, "d.files_top/*.files_nested/*"},
		{"ShareThreshold", withShares, "path=path/foo file=file/1 type=pdf", 120,
			"d.path_path/*.file_file/*.type"},
		{"ShareThreshold", withShares, "file=test1", 50, "d.file_test1"},
		{"ShareThreshold", withShares, "file=test23", 100, "d.file_test*"},
		{"ShareThreshold", withShares, "tenant=t1prod resource=resAv2", 60,
			"d.tenant_t*prod.resource_res*v2"},
	} {
		m := mustParse(t, c.config).find(t, c.pairs)
		switch {
		case (m.rule == nil) != (c.rate == 0):
			t.Errorf("%s: %s: limit %v, want %d", c.of, c.pairs, m.rule, c.rate)
		case m.rule != nil && (m.rule.rate != c.rate || m.metric != c.metric):
			t.Errorf("%s: %s: %d as %s, want %d as %s", c.of, c.pairs, m.rule.rate, m.metric, c.rate,
				c.metric)
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

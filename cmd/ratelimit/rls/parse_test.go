package rls

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// parse parses texts as files called 1.yaml, 2.yaml, ...
func parse(merge bool, texts ...string) (*Config, error) {
	var files []File
	for i, text := range texts {
		files = append(files, File{Name: string(rune('1'+i)) + ".yaml", Data: []byte(text)})
	}
	return Parse(files, merge)
}

func mustParse(t *testing.T, texts ...string) *Config {
	t.Helper()
	c := redistest.Must(parse(len(texts) > 1, texts...))(t)
	return c
}

// The files of the reference service's test/config, retold, load and fail as they do there; so do files with
// keys that it lacks. A mistake names file, line and key. Rows with "and" in their name are files that merge.
func TestFilesOfTheReferenceHaveItsVerdicts(t *testing.T) {
	key := func(n string) string {
		return "domain: d\ndescriptors:\n- {key: key" + n + ", value: v, rate_limit: {unit: minute}}\n"
	}
	below := func(lines string) string { return "domain: d\ndescriptors:\n- " + lines }
	for _, c := range []struct {
		file, texts string // texts of several files have === between them
		want        string // is part of the mistakes, one a line; empty for a valid file
	}{
		{"bad_limit_unit", below("key: a\n  rate_limit:\n    unit: foo\n    requests_per_unit: 5"),
			`1.yaml:5: descriptors[0].rate_limit.unit is "foo", must be second, minute, hour, day, week, ` +
				`month or year, or be replaced by interval`},
		{"bad_yaml", "'''", "1.yaml:1: found unexpected end of stream"},
		{"basic_config", basic, ""},
		{"share_threshold", withShares, ""},
		{"wildcard", withPatterns, ""},
		{"shadowmode_config, metadata", limits, ""},
		{"empty documents", "---\n---\n" + key("1") + "---\n# end\n---\n", ""},
		{"no document", "---\n---\n", "1.yaml: the file is empty, must have a domain"},
		{"duplicate_key", below("{key: a, value: b}\n- {key: a, value: b}"),
			"1.yaml:4: descriptors[1] is d.a_b, which is there already"},
		{"duplicate_domain", key("1") + "===domain: d\ndescriptors:",
			`2.yaml:1: domain is "d", which 1.yaml has already`},
		{"empty_domain", "descriptors:", "1.yaml:1: domain is missing or empty, must have a name"},
		{"empty_key", below("value: b"),
			"1.yaml:3: descriptors[0].key is missing or empty, must have a name"},
		{"merge_domain_key1 and 2", key("1") + "===" + key("2"), ""},
		{"merge_domain_key1 and 1", key("1") + "===" + key("1"),
			"2.yaml:3: descriptors[0] is d.key1_v, which is there already"},
		{"merge and all_or_none", key("1") + "===all_or_none: true\n" + key("2"),
			`2.yaml:1: domain is "d", which 1.yaml has with another all_or_none or fallback`},
		{"misspelled_key", below("key: a\n  ratelimit: {unit: day}"),
			`1.yaml:4: descriptors[0] has no field "ratelimit"; it has descriptors, `},
		{"misspelled_key2", below("key: a\n  rate_limit:\n    unit: day\n    requestsperunit: 5"),
			`1.yaml:6: descriptors[0].rate_limit has no field "requestsperunit"; it has algorithm, burst, `},
		{"non_map_list", below("a"), `1.yaml:3: descriptors[0] is "a", must have fields`},
		{"non_string_key", "domain: d\n0.25: d", `1.yaml:2: the file has no field "0.25"; it has all_or`},
		{"replaces_empty", below("key: a\n  rate_limit:\n    unit: day\n    replaces:\n    - name:"),
			"1.yaml:7: descriptors[0].rate_limit.replaces[0].name is missing or empty, must be the name "},
		{"replaces_self", limited("unit: day, name: x, replaces: [{name: x}]"),
			`1.yaml:2: descriptors[0].rate_limit.replaces has "x", the name of the limit itself`},
		{"share_threshold on foo", below("{key: a, value: foo, share_threshold: true}"),
			"1.yaml:3: descriptors[0].share_threshold is true, must be with a value that has a *"},
		{"unlimited_with_unit", limited("unlimited: true, unit: day"),
			"1.yaml:2: descriptors[0].rate_limit.unit must be missing where unlimited is true"},

		{"all mistakes at once", "domain: d\nx: 1===domain: d\ndescriptors: [{}]",
			`1.yaml:2: the file has no field "x"; it has all_or_none, descriptors, domain and fallback
2.yaml:1: domain is "d", which 1.yaml has already
2.yaml:2: descriptors[0].key is missing or empty, must have a name`},
		{"", "a", `1.yaml:1: the file is "a", must have fields` + "\n1.yaml:1: domain is missing or empty"},
		{"", limited("interval: 0s"), `descriptors[0].rate_limit.interval is "0s", must be a time such as ` +
			`30s, 1m or 24h, from 1ms to 87840h0m0s in whole ms`},
		{"", limited("interval: 5m, unit: day"), "interval and unit are both set, must be one of them"},
		{"", limited("unit: day, algorithm: leaky"), `algorithm is "leaky", must be one of rratelimiter, `},
		{"", limited("unit: day, burst: 5"), "burst is set, must be with the algorithm gcra or token_bucket"},
		{"", limited("unit: day, algorithm: concurrency, charge: true"),
			"charge is true, must be false with concurrency"},
		{"", limited("unit: day, algorithm: gcra, burst: 0"),
			`burst is "0", must be a whole number from 1 to 4294967295`},
		{"", limited("unit: day, algorithm: gcra, burst: 7.9"), `burst is "7.9", must be a whole number`},
		{"", limited("unit: day, requests_per_unit: 0.5"),
			`1.yaml:2: descriptors[0].rate_limit.requests_per_unit is "0.5", must be a whole number`},
		{"", limited("unit: day, requests_per_unit: .nan"), `is ".nan", must be a whole number`},
		{"", limited("unit: day, requests_per_unit: 0.9999999999999999999"), "must be a whole number"},
		{"", limited("unit: day, requests_per_unit: 1e-400"), "must be a whole number"},
		{"", limited("interval: 1.5ms"), `interval is "1.5ms", must be a time such as 30s`},
		{"", single("rate_limit: {unit: day}, metadata: {a: [9007199254740993]}"),
			"metadata has the number 9007199254740993, must be within 2^53"},
		{"", single("rate_limit: {unit: day}, metadata: {a: .inf}"), "metadata is unusable"},
		{"", limited("unit: day, unit: day"), "rate_limit.unit appears twice, first in line 2"},
		{"", limited("unit: day, unlimited: perhaps"), `unlimited is "perhaps", must be true or false`},
		{"", limited("unit: day, shadow_mode: true"), `rate_limit has no field "shadow_mode"`},
		{"", "all_or_none: true\ndomain: d\ndescriptors: [{key: a, fallback: deny}]",
			"fallback is deny, must be that of the file in a domain with all_or_none: local"},
		{"", "all_or_none: true\n" + limited("unit: day, algorithm: gcra"),
			"algorithm is gcra, must be rratelimiter in a domain with all_or_none"},
		{"", single("name: orders"), `descriptors[0].name is "orders", must be with a rate_limit`},
		{"", "domain: d\ndescriptors: [{key: a*}]", `key is "a*", must be without *: only values have `},
		{"", "domain: d\nfallback: [local]", "fallback is a list, must be one of local, allow, deny, error"},
		{"", single("value: b") + "\n---\ndomain: e", "1.yaml:3: a second document begins, must be one"},
		{"", "domain: d\ndescriptors: &x [{key: a, descriptors: *x}]",
			"descriptors is a level too deep, must be at most 50 levels"},
		{"", limited("unit: day, requests_per_unit: -1"),
			`is "-1", must be a whole number from 0 to 4294967295`},
		{"", single("rate_limit: {unit: day}, metadata: [1]"),
			"metadata is unusable: yaml: unmarshal errors:\n"},
		{"", limited("unit: day, replaces: [a]"), `replaces[0] is "a", must have fields`},
	} {
		_, err := parse(strings.Contains(c.file, "and"), strings.Split(c.texts, "===")...)
		got := ""
		if err != nil {
			got = err.Error()
			if m := new(Mistake); !errors.As(err, &m) || !errors.Is(err, limit.ErrInvalidArgument) {
				t.Errorf("%v is no Mistake", err)
			}
		}
		if (c.want == "") != (err == nil) || !strings.Contains(got, c.want) ||
			strings.Count(got, "\n") > strings.Count(c.want, "\n") {
			t.Errorf("%s:\n%s\n got %s\nwant %s", c.file, c.texts, got, c.want)
		}
	}
}

// A file may have tens of thousands of descriptors, while one that expands without end is refused, and the
// report of its mistakes is short.
func TestLargeFilesAndBombs(t *testing.T) {
	many := strings.Builder{}
	many.WriteString("domain: d\ndescriptors:\n")
	for i := range 20_000 {
		fmt.Fprintf(&many, "- {key: a, value: v%d, rate_limit: {unit: day, requests_per_unit: %d}}\n", i, i)
	}
	if r := mustParse(t, many.String()).find(t, "a=v19999").rule; r.rate != 19_999 {
		t.Errorf("the last limit is %d", r.rate)
	}
	bomb := strings.Builder{}
	bomb.WriteString("domain: d\ndescriptors:\n")
	bomb.WriteString("- {key: k, descriptors: &a0 [{key: x, rate_limit: {unit: day}}]}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "- {key: k%d, descriptors: &a%d [", i, i)
		for j := range 10 {
			fmt.Fprintf(&bomb, "{key: q%d, descriptors: *a%d},", j, i-1)
		}
		bomb.WriteString("]}\n")
	}
	wrong := strings.ReplaceAll(many.String(), "unit", "units")
	for text, want := range map[string]string{
		bomb.String(): "the file has more than 100000 nodes",
		wrong:         "1.yaml:36: there are more mistakes from here on",
		"domain: d\ndescriptors: [&x {key: a, <<: *x}]": "the file has more than 100000 nodes",
	} {
		_, err := parse(false, text)
		got := fmt.Sprint(err)
		if !strings.Contains(got, want) || strings.Count(got, "\n") > 100 {
			t.Errorf("%.300s, want %s", got, want)
		}
	}
}

// The guide has the bounds of the code, which other tests call by their names.
func TestTheGuideHasTheBounds(t *testing.T) {
	guide := string(redistest.Must(os.ReadFile("../../../docs/envoy.md"))(t))
	for _, bound := range []string{
		fmt.Sprintf("%d MiB each, %d MiB together, %d levels", largest>>20, mostBytes>>20, deepest),
		fmt.Sprintf("%d KiB of `/json`", maxBody>>10), fmt.Sprintf("| %d descriptors, ", mostDescriptors),
		fmt.Sprintf("at most %d,000 paths", mostPaths/1000),
	} {
		if !strings.Contains(guide, bound) {
			t.Errorf("the guide does not say %q", bound)
		}
	}
}

// A file of nothing but mistakes is not read to its end, which takes as much memory as the nodes of the file.
func TestMistakesEndAFile(t *testing.T) {
	text := "domain: d\ndescriptors: [" + strings.Repeat("{},", largest/4) + "]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := parse(false, text)
	runtime.ReadMemStats(&after)
	const most = 200 // bytes for each of the file
	if made := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); err == nil || made > most {
		t.Errorf("%d bytes for each of the file, want at most %d", made, most)
	}
}

// Anchors, aliases and merged mappings work, as in the files of the reference service.
func TestAnchorsAndMergedMappings(t *testing.T) {
	c := mustParse(t, `
domain: d
descriptors:
- {key: a, rate_limit: &daily {unit: day, requests_per_unit: 5}}
- {key: b, rate_limit: *daily}
- {key: c, rate_limit: {<<: *daily, requests_per_unit: 7}}
`)
	for key, want := range map[string]int64{"a": 5, "b": 5, "c": 7} {
		if r := c.find(t, key+"=x").rule; r.rate != want || r.interval != day {
			t.Errorf("%s: %d per %v, want %d per day", key, r.rate, r.interval, want)
		}
	}
}

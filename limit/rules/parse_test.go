package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

// file returns a file with one rule, with lines behind its name.
func file(lines ...string) string {
	return "rules:\n  - name: a\n    " + strings.Join(lines, "\n    ")
}

// limited returns a file whose only rule has one limit.
func limited(limit string) string { return file("limits:", "  - {"+limit+"}") }

const aTime = ", must be a time such as 30s, 1m or 24h, from 1ms to 87840h0m0s in whole ms"

const limits = "limits: [{rate: 1/1s}]"

var mistakes = []struct{ text, want string }{
	{"", "line 1: the file is empty, must have rules"},
	{"{}", "line 1: rules is missing"},
	{"rules: 3", `line 1: rules is "3", must be a list`},
	{"rules:", "line 1: rules is empty, must be a list"},
	{"rules: []\nrule: []", `line 2: the file has no field "rule"; it has rules`},
	{"rules: []\nrules: []", "line 2: rules appears twice, first in line 1"},
	{"rules: []\n---\nrules: []", "line 2: a second document begins, must be one"},
	{"rules: []\n---\n\trules", "line 3: found character that cannot start any token"},
	{"rules:\n  - name: a\x00", "line 2: control characters are not allowed"},
	{"rules:\n  - name: a\n    also: *x\n", "line 3: unknown anchor 'x' referenced"},
	{file("also: true\n   exempt: true\n"), "line 4: did not find expected '-' indicator"},
	{"rules:\n  - name: a\n\t  also: true\n", "line 3: found a tab character that violates indentation"},
	{"rules: [{name: 'a}]\n\n", "line 1: found unexpected end of stream"},
	{"# more\n" + strings.Repeat("#", 64<<10) + "\nrules: }", "did not find expected node content"},
	{"rules: [\n  {", "line 2: did not find expected node content"},
	{`{"rules": [{"name": "a\/b"}]}`, "line 1: found unknown escape character"},
	{`{"rules": [{"name": "\ud83d\ude00"}]}`, "line 1: found invalid Unicode character escape code"},
	{"a: &a [1]\nrules: *a", "line 1: the file has no field \"a\"; it has rules\n" +
		"line 2: rules is an alias, which is not allowed here, must be a list"},
	{"rules: [3]", `line 1: a rule is "3", must have fields`},
	{"rules:\n  - limits: [{rate: 1/1s}]", "line 2: a rule has no name"},
	{"rules:\n  - name: a b\n    exempt: true",
		`line 2: name is "a b", must have 1 to 31 of A-Z a-z 0-9 _ . -`},
	{"rules:\n  - name: [a]\n    exempt: true", "line 2: name is a list, must be a text"},
	{"rules:\n  - name: ''\n    also: true", `line 2: name is "", must have 1 to 31 of A-Z a-z 0-9 _ . -` +
		"\nline 2: a rule has neither limits nor exempt: true"},
	{file("also: true"), "line 2: rule a has neither limits nor exempt: true"},
	{file("exempt: maybe"), "line 2: rule a has neither limits nor exempt: true\n" +
		`line 3: exempt is "maybe", must be true or false`},
	{file("exempt: true", limits, "by: user", "cost: 2"),
		"line 4: limits is not for a rule that is exempt\nline 5: by is not for a rule that is exempt\n" +
			"line 6: cost is not for a rule that is exempt"},
	{file(limits, "Cost: 1"), `line 4: a rule has no field "Cost"; ` +
		"it has also, by, cost, exempt, limits, match, name and settle"},
	{file("exempt: true") + "\n  - name: a\n    exempt: true",
		"line 4: rule a already exists, in line 2"},

	{file(limits, "match: /a"), `line 4: match is "/a", must have fields`},
	{file(limits, "match: {path: /a}"),
		`line 4: match has no field "path"; it has headers, methods, route and user`},
	{file(limits, "match:", "  route: search"),
		`line 5: route is "search", must be a path such as "/a/{b}", or a method and a path`},
	{file(limits, "match:", "  route: GET POST /a"),
		`line 5: route is "GET POST /a", must be a path such as "/a/{b}", or a method and a path`},
	{file(limits, "match: {route: ' '}"),
		`line 4: route is " ", must be a path such as "/a/{b}", or a method and a path`},
	{file(limits, "match: {route: '/{a'}"),
		`line 4: route "/{a" cannot be used: at offset 1: bad wildcard segment (must end with '}')`},
	{file(limits, "match: {route: '/a//b'}"),
		`line 4: route "/a//b" cannot be used: its path is not clean, and would never match`},
	{file(limits, "match: {route: 'GET /a//b'}"),
		`line 4: route "GET /a//b" cannot be used: at offset 4: ` +
			"non-CONNECT pattern with unclean path can never match"},
	{file(limits, "match: {methods: [get]}"), `line 4: a method is "get", must be in capital letters`},
	{file(limits, "match: {methods: []}"), "line 4: methods has 0 entries, must have 1 to 16"},
	{file(limits, "match:", "  route: GET /a", "  methods: [GET]"),
		`line 6: methods are given, and the route has a method: "GET /a"`},
	{file(limits, "match: {user: alice}"), `line 4: user is "alice", must be true or false`},
	{file(limits, "match: {headers: [a]}"), "line 4: headers is a list, must be a mapping of header fields"},
	{file(limits, "match: {headers: {a b: c}}"),
		`line 4: a header field is "a b", must have 1 to 64 of A-Z a-z 0-9 -`},
	{file(limits, "match:", "  headers:", "    x-a: c", "    X-A: d"),
		"line 7: header field X-A appears twice, first in line 6"},
	{file(limits, "match: {headers: {}}"), "line 4: headers has 0 entries, must have 1 to 16"},
	{file(limits, "by: ip"), `line 4: by is "ip", must be user, address, route or header NAME`},
	{file(limits, "by: [user, 'header a b']"),
		`line 4: by is "header a b", must be user, address, route or header NAME`},
	{file(limits, "by: []"), "line 4: by has 0 entries, must have 1 to 16"},
	{file(limits, "by: [user, user]"), "line 4: user appears twice"},
	{file(limits, "cost: 0"), "line 4: cost is 0, must be 1 to 2^40"},
	{file(limits, "cost: 1.5"), `line 4: cost is "1.5", must be a whole number`},
	{file("cost: 2", limits), "line 4: the cost is 2, and the limit has at most 1: no call would pass"},

	{file(limits, "settle: 1"), `line 4: settle is "1", must be true or false`},
	{file("settle: true", "exempt: true"), "line 3: settle is not for a rule that is exempt"},
	{file("settle: true", "limits: [{most: 1, lease: 1s, algorithm: concurrency}]"),
		"line 4: settle is not for concurrency, whose permits come back when the call ends"},

	{file("limits: []"), "line 3: limits has 0 entries, must have 1 to 16"},
	{file("limits: [1/1s]"), `line 3: a limit is "1/1s", must have fields`},
	{limited("rate: -1/1s"), "line 4: rate is -1, must be 1 to 2^40"},
	{limited("rate: 99999999999999999999/1s"), "line 4: rate is 99999999999999999999, must be 1 to 2^40"},
	{limited("rate: many/1s"), `line 4: rate is "many", must be a whole number`},
	{limited("rate: 1/minute"),
		`line 4: the time of rate is "minute", must be day, week, month, year, or a time such as ` +
			"30s, 1m or 24h"},
	{limited("rate: 1/day, algorithm: fixed-window"),
		"line 4: per is a unit of the calendar, must be a time such as 24h for fixed-window"},
	{limited("rate: 1/24h, algorithm: calendar"),
		"line 4: per is 24h0m0s, must be day, week, month or year for calendar"},
	{limited("rate: 1/24h, zone: Europe/Berlin"), "line 4: zone is not for rratelimiter"},
	{limited("rate: 1/day, zone: Mars"), `line 4: zone is "Mars", must be a time zone such as Europe/Berlin`},
	{limited("rate: 1/day, zone: Local"),
		`line 4: zone is "Local", must be a time zone such as Europe/Berlin`},
	{limited("rate: 1/day, from: 2026-02-30"), `line 4: from is "2026-02-30", must be a date such as ` +
		"2026-01-15, or with a time, 2026-01-15T08:30"},
	{limited("rate: 1/1us"), `line 4: the time of rate is "1us"` + aTime},
	{limited("rate: 1/1.5ms"), `line 4: the time of rate is "1.5ms"` + aTime},
	{limited("rate: 1, per: 87841h"), `line 4: per is "87841h"` + aTime},
	{limited("rate: 1"), "line 4: a limit has no per, must have one for rratelimiter"},
	{limited("per: 1s"), "line 4: a limit has no rate, must have one for rratelimiter"},
	{limited("rate: 1/1s, per: 1s"), "line 4: per appears twice, first in line 4 behind the rate"},
	{limited("rate: 1/1s, burst: 5"), "line 4: burst is not for rratelimiter"},
	{limited("algorithm: sliding-counter, rate: 1/1s, parts: 101"), "line 4: parts is 101, must be 1 to 100"},
	{limited("rate: 1/1s, rat: 5"), `line 4: a limit has no field "rat"; ` +
		"it has algorithm, burst, from, lease, most, name, parts, per, rate and zone"},
	{file("limits: [{name: a, rate: 1/1s}, {rate: 1/1s}]"),
		"line 3: a limit has no name, must have one where a rule has several"},
	{file("limits:", "  - {name: a, rate: 1/1s}", "  - {name: a, rate: 1/1s}"),
		"line 5: limit a already exists, in line 4"},
	{file("limits: [{rate: 1/1s}, {name: '', rate: 1/1s}]"),
		"line 3: a limit has no name, must have one where a rule has several\n" +
			`line 3: name is "", must have 1 to 31 of A-Z a-z 0-9 _ . -`},

	// Limits are read last, and all mistakes are in the order of lines.
	{file("limits:", "  - rate: 0/1s", "  - {name: b, rate: 1/1s, burst: 1}", "match: {user: 1}", "by: x"),
		"line 4: rate is 0, must be 1 to 2^40\n" +
			"line 4: a limit has no name, must have one where a rule has several\n" +
			"line 5: burst is not for rratelimiter\n" +
			"line 6: user is \"1\", must be true or false\n" +
			`line 7: by is "x", must be user, address, route or header NAME`},

	{file(limits) + "\n  - name: b\n    " + limits,
		"line 4: rule b never applies: rule a, line 2, has the same route and no other conditions"},
	{file(limits, "match: {methods: [GET, POST], user: true}") +
		"\n  - {name: b, match: {methods: [HEAD], user: true}, exempt: true}",
		"line 5: rule b never applies: rule a, line 2, has the same route and no other conditions"},
	{file(limits, "match: {headers: {X: true, Y: b}}") +
		"\n  - {name: b, match: {headers: {Y: b, X: a}}, exempt: true}",
		"line 5: rule b never applies: rule a, line 2, has the same route and no other conditions"},
	{file("cost: 0", "limits: [{rate: 0/1s}]") + "\n  - {name: b, exempt: true}",
		"line 3: cost is 0, must be 1 to 2^40\nline 4: rate is 0, must be 1 to 2^40\n" +
			"line 5: rule b never applies: rule a, line 2, has the same route and no other conditions"},
	{"rules:\n  - exempt: true\n  - exempt: true", "line 2: a rule has no name\n" +
		"line 3: a rule has no name\n" +
		"line 3: a rule never applies: a rule, line 2, has the same route and no other conditions"},
	// The calls of rule a are unknown.
	{file("exempt: true", "math: {route: /a}") + "\n  - {name: b, exempt: true}",
		`line 4: a rule has no field "math"; it has also, by, cost, exempt, limits, match, name and settle`},
	{file("exempt: true", "match: {rout: /a}") + "\n  - {name: b, exempt: true}",
		`line 4: match has no field "rout"; it has headers, methods, route and user`},
	{file("also: true", "exempt: true", "match: {rout: /a}"),
		`line 5: match has no field "rout"; it has headers, methods, route and user`},
	{file("also: true", "exempt: true"),
		"line 3: rule a exempts all calls from all rules, must have a match"},
	{file(limits, "match: {user: false}", "by: [address, user]"),
		"line 5: rule a is by user, and matches only calls without it"},
	{file(limits, "match: {headers: {X-K: false}}", "by: header X-K"),
		"line 5: rule a is by header X-K, and matches only calls without it"},
	{file(limits, "match: {route: get /search}"),
		`line 4: the method of a route is "get", must be in capital letters`},
	{file(limits, "match: {route: '/search?q=1'}"),
		`line 4: route is "/search?q=1", must not have a ?: no rule goes by a query`},
	{file(limits, "match: {route: '/a/*'}"),
		`line 4: route is "/a/*", must not have a *: write {name} for a part, {name...} for the rest`},
	{file(limits, "match: {route: '/a/:id'}"),
		`line 4: route is "/a/:id", must not have a part that begins with a colon: write {name}`},
	{file(limits, "match: {route: '"+strings.Repeat("/a", 33)+"'}"),
		"line 4: route has 33 parts, must have at most 32"},
	{file(limits, "match: {route: '/{x}'}") + "\n  - name: b\n    exempt: true\n    match: {route: '/{y}'}",
		`line 7: route "/{y}" conflicts: /{y} matches the same requests as /{x}`},
	{file(limits, "match: {route: GET /}") + "\n  - name: b\n    exempt: true\n    match: {route: /b}",
		`line 7: route "/b" conflicts: ` +
			"/b matches more methods than GET /, but has a more specific path pattern"},
}

func TestEachMistakeHasItsLine(t *testing.T) {
	for _, test := range mistakes {
		set, err := rules.Parse([]byte(test.text))
		if set != nil || err == nil || err.Error() != test.want {
			t.Errorf("Parse of\n%s\nreturns\n%v\nwant\n%s", test.text, err, test.want)
		}
		if !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("%v is not an ErrInvalidArgument", err)
		}
	}
}

// In files of 1 MiB, entries that are compared with each other are bounded, and so are mistakes.
func TestFilesAreBounded(t *testing.T) {
	// numbered returns a text with growing numbers in it, up to a length.
	numbered := func(format string, length int) string {
		var b strings.Builder
		for i := 0; b.Len() < length; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	headers := "    exempt: true\n    match:\n      headers:\n" + numbered("        x%d: a\n", 400_000)
	// Each line has nine aliases of the line before: 9 to the 9th entries.
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 8), i-1)
	}
	for _, test := range []struct{ text, want string }{
		{strings.Repeat("#", 1<<20+1), "line 1: the file has 1048577 bytes, must have at most 1048576"},
		{"rules:\n" + strings.Repeat("  - {}\n", 501), "line 2: rules has 501 entries, must have at most"},
		{"rules:\n" + strings.Repeat("  - {}\n", 500), "there are more mistakes from here on"},
		{"rules:\n  - name: a\n" + headers + "  - name: b\n" + headers, "headers has "},
		{"rules:\n  - name: a\n" + numbered("    f%d: 1\n", 1_000_000), "a rule has no field"},
		{"{" + strings.Repeat("a,", 500_000) + "}", "the file has no field"},
		{bomb + "rules: *a8", "line 10: rules is an alias, which is not allowed here"},
	} {
		_, err := rules.Parse([]byte(test.text))
		if text := fmt.Sprint(err); !strings.Contains(text, test.want) || strings.Count(text, "\n") > 100 {
			t.Errorf("%.200s, want at most 100 mistakes, with %q", text, test.want)
		}
	}
}

func TestJSONIsRead(t *testing.T) {
	json := `{"rules": [{"name": "a", "match": {"route": "GET /search", "headers": {"X-Plan": "free"}},
	"by": ["user", "header X-Team"], "limits": [{"rate": 10, "per": "1m"}]}]}`
	if _, err := rules.Parse([]byte(json)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range mistakes {
		f.Add([]byte(test.text))
	}
	f.Add([]byte(file(limits, "match: {route: 'GET /a/{x}/{y...}', headers: {A: true}}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := rules.Parse(data)
		if err == nil {
			if _, err := rules.New(rules.InMemory(), set); err != nil {
				t.Errorf("New refuses what Parse has read: %v", err)
			}
			return
		}
		if set != nil || !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("a Set %v, and %v", set, err)
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if len(data) <= 64<<10 && !strings.HasPrefix(line, "line ") || strings.HasPrefix(line, "line 0") {
				t.Errorf("no line in %q of %q", line, err)
			}
		}
	})
}

package httplimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
)

// RateLimit is parsed by draft 11, and a malformed field is ignored (section 7).
func TestReadDraft11(t *testing.T) {
	for field, want := range map[string]time.Duration{
		`"a";r=0;t=7`:                        7 * time.Second,
		`"a";t=7;r=0`:                        7 * time.Second,
		`"a"; r=0; t=7`:                      7 * time.Second,
		`"a";r=0;t=7;pk=:cHsd:;x="r=9;t=99"`: 7 * time.Second,
		`"a";r=0;t=7,"b";r=0;t=8`:            8 * time.Second,
		`"a";r=0;t=0`:                        0,
		`"a\";r=0;t=7"`:                      -1,
		`"a\\";r=0;t=7`:                      7 * time.Second,
		`"a";r=1;t=7`:                        -1,
		`"a";r=0`:                            -1,
		`"a";t=7`:                            -1,
		`"a";r="0";t=7`:                      -1,
		`"a";r=-1;t=7`:                       -1,
		`"a";r=0;t=?1`:                       -1,
		`"a";r=0;t=4.5`:                      -1,
		`"a";r=0;t=4, "b`:                    -1,
		`a;r=0;t=4`:                          4 * time.Second,
		`"a";r=0;t=1000000000000000`:         -1,
		`"a";r=0;t=999999999999999`:          1_000_000_000 * time.Second,
		`"a`:                                 -1,
		``:                                   -1,
	} {
		got, ok := httplimit.ReadDraft11(field)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %v, %v, want %v", field, got, ok, want)
		}
	}
}

// The parser of the package agrees with the strict parser of the tests on all that the latter accepts.
func FuzzReadDraft11(f *testing.F) {
	f.Add(`"a";r=0;t=7, "b";r=1`)
	f.Add(`"a;,";r=0;t=7;t=8 ,	b;x="\"\\";t=1;r=0`)
	f.Add(strings.Repeat(`;`, 1000))
	f.Add(`\"`)
	f.Fuzz(func(t *testing.T, field string) {
		d, ok := httplimit.ReadDraft11(field)
		if d < 0 || !ok && d != 0 {
			t.Fatalf("%q: %v, %v", field, d, ok)
		}
		items, err := parseList(field)
		if err != nil || strings.Contains(field, "-") { // -0 is an Integer
			return
		}
		want, there := longest(items)
		if ok != there || d != want {
			t.Errorf("%q: %v, %v, want %v, %v", field, d, ok, want, there)
		}
	})
}

// longest returns the longest t of the items whose r is 0, and whether there is one.
func longest(items []sfItem) (longest time.Duration, there bool) {
	for _, item := range items {
		r, hasR := item.params["r"]
		left, isInt := r.(int64)
		t, hasT := item.params["t"]
		after, isIntToo := t.(int64)
		if hasR && !isInt || hasT && !isIntToo {
			return 0, false
		}
		if hasR && hasT && left == 0 {
			there, longest = true, max(longest, time.Duration(min(after, 1_000_000_000))*time.Second)
		}
	}
	return longest, there
}

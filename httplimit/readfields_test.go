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

// Whatever a server sends, there is a time of 0 or more, or none.
func FuzzReadDraft11(f *testing.F) {
	f.Add(`"a;,";r=0;t=7;t=8 ,	b;x="\"\\";t=1;r=0`)
	f.Add(strings.Repeat(`;`, 1000))
	f.Add(`\"`)
	f.Fuzz(func(t *testing.T, field string) {
		if d, ok := httplimit.ReadDraft11(field); d < 0 || !ok && d != 0 {
			t.Fatalf("%q: %v, %v", field, d, ok)
		}
	})
}

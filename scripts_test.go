package rratelimiter

import (
	"regexp"
	"strings"
	"testing"
)

func TestScriptRepliesOfAnotherShape(t *testing.T) {
	for _, reply := range []any{nil, "1", []any{}, []any{int64(1), "2"}, []any{nil}, make([]any, 5), 1.5} {
		if _, err := decode(reply); err == nil {
			t.Errorf("%v (%T) was taken for a reply", reply, reply)
		}
	}
	for _, reply := range []any{int64(7), []any{int64(7)}, []any{int64(7), int64(0), int64(0), int64(0)}} {
		if n, err := decode(reply); err != nil || n[0] != 7 {
			t.Errorf("%v: %v, %v", reply, n, err)
		}
	}
}

// Keys are literal, and struct, cjson and bit are not used: some servers would
// refuse anything else.
func TestScriptsUseLiteralKeys(t *testing.T) {
	call := regexp.MustCompile(`redis\.p?call\(([^,)]+)(?:, ([^,)]+))?`)
	calls := 0
	for _, sc := range []*script{
		acquireScript, releaseScript, withdrawScript, peekScript, trySetRateScript, setRateScript, clearScript, expireScript,
	} {
		for _, word := range []string{"struct.", "cjson.", "bit.", "cmsgpack.", "unpack("} {
			if strings.Contains(sc.source, word) {
				t.Errorf("a script uses %s", word)
			}
		}
		for _, m := range call.FindAllStringSubmatch(sc.source, -1) {
			calls++
			if m[2] != "KEYS[1]" && m[2] != "KEYS[2]" && m[2] != "KEYS[3]" && m[1] != "'TIME'" {
				t.Errorf("a key that is not literal: %s", m[0])
			}
		}
	}
	if calls < 50 {
		t.Errorf("%d calls found; the pattern no longer fits the scripts", calls)
	}
}

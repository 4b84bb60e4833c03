package rratelimiter

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestScriptRepliesOfAnotherShape(t *testing.T) {
	for _, val := range []any{nil, "1", []any{}, []any{int64(1), "2"}, []any{nil}, []any{int64(0), int64(0), int64(0), int64(0), int64(0), nil}, 1.5} {
		if _, err := decode(val); err == nil {
			t.Errorf("%v (%T) was taken for a reply", val, val)
		}
	}
	for _, val := range []any{int64(7), []any{int64(7)}, []any{int64(7), int64(0), int64(0), int64(0), int64(0), int64(1), int64(2)}} {
		if r, err := decode(val); err != nil || r.numbers[0] != 7 || r.answers != nil && (r.answers[0] != 1 || r.answers[1] != 2) {
			t.Errorf("%v: %v, %v", val, r, err)
		}
	}
}

// Keys are literal, and struct, cjson and bit are not used: some servers would
// refuse anything else.
func TestScriptsUseLiteralKeys(t *testing.T) {
	call := regexp.MustCompile(`redis\.p?call\(([^,)]+)(?:, ([^,)]+))?`)
	literal := regexp.MustCompile(`^KEYS\[(\d|10)\]$`)
	calls := 0
	for _, sc := range []*script{
		acquireScript, withdrawScript, giveBackScript, markedAcquireScript, markedWithdrawScript, markedGiveBackScript, releaseScript, repairScript, peekScript,
		trySetRateScript, setRateScript, clearScript, deleteScript, renameScript, expireScript,
	} {
		for _, word := range []string{"struct.", "cjson.", "bit.", "cmsgpack.", "unpack("} {
			if strings.Contains(sc.source, word) {
				t.Errorf("a script uses %s", word)
			}
		}
		for _, m := range call.FindAllStringSubmatch(sc.source, -1) {
			calls++
			if !literal.MatchString(m[2]) && m[1] != "'TIME'" && m[1] != "'PUBLISH'" {
				t.Errorf("a key that is not literal: %s", m[0])
			}
		}
	}
	if calls < 50 {
		t.Errorf("%d calls found; the pattern no longer fits the scripts", calls)
	}
}

// No piece of a script takes a name again that one before it has given: what
// comes behind them would read the wrong one.
func TestPiecesTakeNoNameTwice(t *testing.T) {
	local := regexp.MustCompile(`(?m)^local (?:function )?([\w, ]+)`)
	for name, sc := range map[string]*script{
		"acquire": acquireScript, "withdraw": withdrawScript, "marked acquire": markedAcquireScript,
		"marked withdraw": markedWithdrawScript, "give back": giveBackScript, "marked give back": markedGiveBackScript, "release": releaseScript, "repair": repairScript, "peek": peekScript,
		"trySetRate": trySetRateScript, "setRate": setRateScript, "expire": expireScript,
	} {
		seen := map[string]bool{}
		// What is included stands within a block of its own.
		source := strings.NewReplacer(included.Replace(dueLua), "", outstandingLua, "", aheadLua, "").Replace(sc.source)
		for _, m := range local.FindAllStringSubmatch(source, -1) {
			for taken := range strings.SplitSeq(m[1], ",") {
				if taken = strings.TrimSpace(taken); seen[taken] {
					t.Errorf("%s: local %s twice", name, taken)
				}
				seen[taken] = true
			}
		}
		if len(seen) < 8 {
			t.Errorf("%s: %d names found; the pattern no longer fits the scripts", name, len(seen))
		}
	}
}

// A pause does not end with many attempts.
func TestPauseIsNeverNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sender{nil, 100, 8 * time.Millisecond, 20 * time.Millisecond}
		for attempt := range 100 {
			start := time.Now()
			if err := s.pause(t.Context(), attempt); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < 4*time.Millisecond || took > 20*time.Millisecond {
				t.Errorf("attempt %d: a pause of %v", attempt, took)
			}
		}
	})
}

package redisx

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestScriptRepliesOfAnotherShape(t *testing.T) {
	for _, val := range []any{nil, "1", []any{}, []any{int64(1), "2"}, []any{nil}, []any{int64(0), int64(0), int64(0), int64(0), int64(0), nil}, 1.5} {
		if _, err := Decode(val); err == nil {
			t.Errorf("%v (%T) was taken for a reply", val, val)
		}
	}
	for _, val := range []any{int64(7), []any{int64(7)}, []any{int64(7), int64(0), int64(0), int64(0), int64(0), int64(1), int64(2)}} {
		if r, err := Decode(val); err != nil || r.At(0) != 7 || r.From(5) != nil && (r.At(5) != 1 || r.At(6) != 2) {
			t.Errorf("%v: %v, %v", val, r, err)
		}
	}
}

func TestCommentsAreBlanked(t *testing.T) {
	for line, want := range map[string]string{
		"a = 1 -- b":              "a = 1",
		"  -- b":                  "",
		"  a = '--' -- 'b'":       "  a = '--'",
		`a = "\"--" .. '\'' -- b`: `a = "\"--" .. '\''`,
		"a = b - -1":              "a = b - -1",
	} {
		if got := withoutComments(line + "\n"); got != want+"\n" {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

// A pause does not end with many attempts.
func TestPauseIsNeverNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := Kind{minBackoff: 8 * time.Millisecond, maxBackoff: 20 * time.Millisecond}
		for attempt := range 100 {
			start := time.Now()
			if err := kind.pause(t.Context(), attempt); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < 4*time.Millisecond || took > 20*time.Millisecond {
				t.Errorf("attempt %d: a pause of %v", attempt, took)
			}
		}
	})
}

// A script that was cut short may have been carried out in part: it is sent again
// as one that says so. What a server says, by its version.
func TestAScriptThatWasCutShort(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR Script attempted to access a non local key in a cluster node script: 6f, on @user_script:12.":                                              true,
		"ERR Error running script (call to f_6f0): @user_script:12: @user_script: 12: Lua script attempted to access a non local key in a cluster node": true,
		"ERR user_script:1: x script: 6f, on @user_script:1.":                                                                                           false, "TRYAGAIN Multiple keys request during rehashing of slot": false, "BADKEY 3 zset": false,
	} {
		err := fmt.Errorf("wrapped: %w", error(serverError(text)))
		if cutShort(err) != want || replyLost(err) != want {
			t.Errorf("%s: %v, %v", text, cutShort(err), replyLost(err))
		}
	}
	if cutShort(errors.New("ERR Script attempted to access a non local key")) {
		t.Error("an error of somebody else was taken for one of Redis")
	}
}

// serverError is an answer of Redis.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

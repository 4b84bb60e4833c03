package redisx

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestScriptRepliesOfAnotherShape(t *testing.T) {
	for _, val := range []any{
		nil, "1", 1.5, []any{}, []any{nil}, []any{int64(1), "2"},
		[]any{int64(0), int64(0), int64(0), int64(0), int64(0), nil},
	} {
		if _, err := Decode(val); !errors.Is(err, ErrShape) {
			t.Errorf("%v (%T) was taken for a reply: %v", val, val, err)
		}
	}
	for _, val := range []any{
		int64(7), []any{int64(7)},
		[]any{int64(7), int64(0), int64(0), int64(0), int64(0), int64(1), int64(2)},
	} {
		r, err := Decode(val)
		if err != nil || r.At(0) != 7 || r.From(5) != nil && (r.At(5) != 1 || r.At(6) != 2) {
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

// However many attempts there were, a pause is neither zero nor too long.
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

// A pause ends with its context, and says so even where there is nothing to wait for.
func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, most := range []time.Duration{0, time.Hour} {
			kind := Kind{minBackoff: most, maxBackoff: most}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			if most == 0 {
				cancel()
			}
			if err := kind.pause(ctx, 0); !errors.Is(err, ctx.Err()) || err == nil {
				t.Errorf("pause of %v: %v, want %v", most, err, ctx.Err())
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("pause of %v: took %v", most, took)
			}
			cancel()
		}
	})
}

// A script that was cut short may have been carried out in part. It is sent again, and
// told so. The error of the server depends on its version.
func TestAScriptThatWasCutShort(t *testing.T) {
	const gone = "attempted to access a non local key in a cluster node"
	for text, want := range map[string]bool{
		"ERR Script " + gone + " script: 6f, on @user_script:12.": true,

		"ERR Error running script (call to f_6f0): @user_script:12: " +
			"@user_script: 12: Lua script " + gone: true,

		"ERR user_script:1: x script: 6f, on @user_script:1.":     false,
		"TRYAGAIN Multiple keys request during rehashing of slot": false,
		"BADKEY 3 zset": false,
	} {
		err := fmt.Errorf("wrapped: %w", error(serverError(text)))
		if scriptCutShort(err) != want || replyLost(err) != want {
			t.Errorf("%s: %v, %v", text, scriptCutShort(err), replyLost(err))
		}
	}
	if scriptCutShort(errors.New("ERR Script attempted to access a non local key")) {
		t.Error("an error from elsewhere was taken for one of Redis")
	}
}

// An error is final if Redis has judged the request: a copy would get the same reply.
func TestFinalErrors(t *testing.T) {
	for err, want := range map[error]bool{
		serverError("BADKEY 3 zset"):                                       true,
		serverError("TRYAGAIN x"):                                          false,
		serverError("ERR Script attempted to access a non local key in x"): false,
		errors.New("BADKEY 3 zset"):                                        false,
		context.DeadlineExceeded:                                           false,
	} {
		if got := Final(err); got != want {
			t.Errorf("%v: final %v, want %v", err, got, want)
		}
	}
	if got := Detail(fmt.Errorf("wrapped: %w", serverError("BADKEY 3 zset")), "BADKEY"); got != "3 zset" {
		t.Errorf("the detail is %q", got)
	}
}

// serverError is an error that Redis replies.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

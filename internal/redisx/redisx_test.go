package redisx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

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

// A script is its file with all that it includes, without comments, each line in its place.
func TestLoad(t *testing.T) {
	files := fstest.MapFS{
		"a.lua": {Data: []byte("-- A comment.\nlocal a = 1\n" +
			"  -- include parts/b.lua\nreturn a + b + c\n")},
		"parts/b.lua": {Data: []byte("local b = 2\n-- include parts/c.lua\n")},
		"parts/c.lua": {Data: []byte("local c = 3 -- three\n")},
	}
	const want = "\nlocal a = 1\nlocal b = 2\nlocal c = 3\nreturn a + b + c\n"
	sc := Load(files, "a.lua", true)
	if sc.Source != want || !sc.repeatable {
		t.Errorf("%q, repeatable %v; want %q", sc.Source, sc.repeatable, want)
	}
	if sum := sha1.Sum([]byte(want)); sc.hash != hex.EncodeToString(sum[:]) {
		t.Errorf("the hash is %v", sc.hash)
	}
	defer func() {
		if recover() == nil {
			t.Error("a file that is missing went unnoticed")
		}
	}()
	Load(files, "parts/d.lua", true)
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

// No attempt begins on a server that has been silent for as long as all attempts but the last take: 18 s by
// default (docs/errors.md).
func TestASilentServerIsTriedForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := Kind{retries: defaultRetries, ReadTimeout: 5 * time.Second, maxBackoff: defaultMaxBackoff}
		start := time.Now()
		for _, want := range []bool{false, true} {
			time.Sleep(18 * time.Second)
			if got := k.silentTooLong(io.EOF, start); got != want {
				t.Errorf("after %v: %v", time.Since(start), got)
			}
		}
		if k.silentTooLong(serverError("TRYAGAIN"), start) || k.silentTooLong(errCut, start) {
			t.Error("an answer, or the error of another caller, was taken for silence")
		}
	})
}

// A slot that moves uses up no attempts for three seconds.
func TestAMovingSlotIsTriedForABoundedTime(t *testing.T) {
	r := Runner{Kind: Kind{retries: defaultRetries}}
	for after, want := range map[time.Duration]int{0: 2, 2 * time.Second: 2, 3 * time.Second: 3} {
		start := time.Now().Add(-after)
		if got := r.charged(defaultRetries, serverError("TRYAGAIN later"), start); got != want {
			t.Errorf("after %v: %d of %d attempts count, want %d", after, got, defaultRetries, want)
		}
	}
}

// However many calls fail, the nodes of a cluster are asked for once a second, and not after an answer.
func TestNodesAreReloadedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := Runner{Kind: Kind{reload: func(context.Context) { asked++ }}, lastReload: new(atomic.Int64)}
		for range 30 {
			r.reloadNodes(t.Context(), io.EOF)
			r.reloadNodes(t.Context(), serverError("TRYAGAIN"))
			time.Sleep(100 * time.Millisecond)
		}
		if asked != 3 {
			t.Errorf("asked %d times in 3 s", asked)
		}
	})
}

// A script that was cut short may have been carried out in part. It is sent again, and told so. The error of
// the server depends on its version. An error is final if Redis has judged the request: a copy would get the
// same reply.
func TestErrorsOfRedisAreJudged(t *testing.T) {
	const gone = "attempted to access a non local key in a cluster node"
	const cutShort, final, neither = 1, 2, 0
	for text, want := range map[string]int{
		"ERR Script " + gone + " script: 6f, on @user_script:12.": cutShort,

		"ERR Error running script (call to f_6f0): @user_script:12: " +
			"@user_script: 12: Lua script " + gone: cutShort,

		"ERR user_script:1: x script: 6f, on @user_script:1.":     final,
		"TRYAGAIN Multiple keys request during rehashing of slot": neither,
		"BADKEY 3 zset": final,
	} {
		judged := error(serverError(text))
		err, short := fmt.Errorf("wrapped: %w", judged), want == cutShort
		if scriptCutShort(err) != short || replyLost(err) != short || Final(judged) != (want == final) {
			t.Errorf("%s: %v, %v, final %v", text, scriptCutShort(err), replyLost(err), Final(judged))
		}
	}
	for _, err := range []error{errors.New("ERR Script " + gone), context.DeadlineExceeded} {
		if scriptCutShort(err) || Final(err) {
			t.Errorf("%v was taken for an error of Redis", err)
		}
	}
	if replyLost(redis.ErrPoolTimeout) || replyLost(redis.ErrClosed) {
		t.Error("a request that got no connection may have been carried out")
	}
	if got := Detail(fmt.Errorf("wrapped: %w", serverError("BADKEY 3 zset")), "BADKEY"); got != "3 zset" {
		t.Errorf("the detail is %q", got)
	}
}

// serverError is an error that Redis replies.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

package rratelimiter

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// given are the arguments of a script, by where they stand; those in between
// are empty.
type given map[int]any

// argv is all of ARGV, for a limiter of a type.
func (g given) argv(typ any) []any {
	if t, ok := typ.(RateType); ok {
		typ = int(t)
	}
	var a arguments
	for _, i := range slices.Sorted(maps.Keys(g)) {
		a.put(i, g[i])
	}
	return append([]any{typ}, a...)
}

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

// scriptNames are those of the files in scripts/, each of which is an operation.
func scriptNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := fs.Glob(scriptFiles, "scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(path.Base(file), ".lua"))
	}
	return names
}

// What Redis gets has no comments, and each line in its place. SCRIPTS=1 prints
// it (make scripts).
func TestScriptsAsRedisGetsThem(t *testing.T) {
	for _, name := range scriptNames(t) {
		whole, sent := included(name+".lua"), newScript(name, false).source
		if strings.Count(whole, "\n") != strings.Count(sent, "\n") || strings.Contains(sent, "--") {
			t.Errorf("%s: a line is missing, or a comment left", name)
		}
		if os.Getenv("SCRIPTS") != "" {
			fmt.Printf("-- %s\n%s", name, sent)
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

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

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// given are the arguments of a script, by where they stand; those in between
// are empty.
type given map[int]any

// argv is all of ARGV, for a limiter of a type.
func (g given) argv(typ any) []any {
	if t, ok := typ.(RateType); ok {
		typ = int(t)
	}
	args := arguments{typ}
	for _, i := range slices.Sorted(maps.Keys(g)) {
		args.put(i, g[i])
	}
	return args
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
		whole, sent := redisx.Included(scriptDir(), name+".lua"), repeatable(name).Source
		if strings.Count(whole, "\n") != strings.Count(sent, "\n") || strings.Contains(sent, "--") {
			t.Errorf("%s: a line is missing, or a comment left", name)
		}
		if os.Getenv("SCRIPTS") != "" {
			fmt.Printf("-- %s\n%s", name, sent)
		}
	}
}

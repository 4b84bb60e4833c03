package request

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/scripts"
)

// With LUACOVER, where earlier tests have noted what they ran on miniredis, this prints the lines of
// scripts/ that none of them ran (make luacover).
func TestLinesOfLuaThatNothingRuns(t *testing.T) {
	dir := os.Getenv(redistest.LuaCover)
	if dir == "" {
		t.Skip(redistest.LuaCover + " names no directory")
	}
	runs := map[string]int{} // by the place of a statement
	for _, name := range scriptNames(t) {
		for limiters := range 3 { // a script for more differs only in the numbers of keys
			text := repeated(redisx.Included(scripts.Files, name+".lua"), limiters+1)
			places := strings.Split(repeated(redisx.Included(places(t), name+".lua"), limiters+1), "\n")
			source := redisx.NewScript(text, true).Source
			sum := sha1.Sum([]byte(source))
			ran := redistest.LuaRan(t, dir, hex.EncodeToString(sum[:]))
			for _, line := range redistest.LuaStatements(t, source) {
				runs[strings.TrimSpace(places[line-1])] += ran[line]
			}
		}
	}
	var never []string
	for place, times := range runs {
		if times == 0 {
			never = append(never, place)
		}
	}
	slices.Sort(never)
	t.Logf("%d of %d statements ran; not these:\n%s",
		len(runs)-len(never), len(runs), strings.Join(never, "\n"))
}

// places returns scripts/ with each line as its own place and text.
func places(t *testing.T) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	err := fs.WalkDir(scripts.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(scripts.Files, name)
		var as strings.Builder
		for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			if command := strings.TrimSpace(line); command+"\n" != markMember &&
				!strings.HasPrefix(command, "-- include ") {
				line = fmt.Sprintf("%s:%03d: %s", name, i+1, strings.ReplaceAll(command, "KEYS", "keys"))
			}
			as.WriteString(line + "\n")
		}
		all[name] = &fstest.MapFile{Data: []byte(as.String())}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

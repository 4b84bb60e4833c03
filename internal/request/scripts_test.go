package request

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/scripts"
)

// scriptNames returns the names of the operations: one for each file in scripts/.
func scriptNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := fs.Glob(scripts.Files, "*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(path.Base(file), ".lua"))
	}
	return names
}

// Redis gets the scripts without comments, each line in its place. SCRIPTS=1 prints them (make scripts).
func TestScriptsAsRedisGetsThem(t *testing.T) {
	for _, name := range scriptNames(t) {
		whole, sent := redisx.Included(scripts.Files, name+".lua"), repeatable(name).Source
		if strings.Count(whole, "\n") != strings.Count(sent, "\n") || strings.Contains(sent, "--") {
			t.Errorf("%s: a line is missing, or a comment left", name)
		}
		if os.Getenv("SCRIPTS") != "" {
			fmt.Printf("-- %s\n%s", name, sent)
		}
	}
}

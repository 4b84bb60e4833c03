package limit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The rights in docs/algorithms.md are those of the commands in the scripts.
func TestRights(t *testing.T) {
	page := redistest.Must(os.ReadFile("../docs/algorithms.md"))(t)
	scripts := map[string][]string{
		"fixedwindow.Window": {"fixedwindow/take.lua"}, "slidingwindow.Log": {"slidingwindow/log.lua"},
		"slidingwindow.Counter": {"slidingwindow/counter.lua"},
		"tokenbucket.Bucket":    {"tokenbucket/take.lua"},
		"leakybucket.Meter":     {"leakybucket/pour.lua"}, "leakybucket.Queue": {"leakybucket/queue.lua"},
		"concurrency.Limit": {"concurrency/*.lua", "concurrency/parts/*.lua"},
	}
	for _, a := range algorithms {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(a.name) + "` \\| (\\+[a-z +]+) \\|$").
			FindSubmatch(page)
		if row == nil {
			t.Errorf("docs/algorithms.md has no rights of %s", a.name)
			continue
		}
		got, want := strings.Fields(string(row[1])), commands(t, scripts[a.name]...)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: docs/algorithms.md has %s, the scripts have %s", a.name, got, want)
		}
	}
}

// commands returns the rights that scripts need, sorted.
func commands(t *testing.T, patterns ...string) (rights []string) {
	t.Helper()
	for _, pattern := range patterns {
		for _, file := range redistest.Must(filepath.Glob(pattern))(t) {
			text := redistest.Must(os.ReadFile(file))(t)
			for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllSubmatch(text, -1) {
				rights = append(rights, "+"+strings.ToLower(string(m[1])))
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

package bounds_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that imports the library compiles go-redis, this module, and at most 8 packages of other
// modules. All but one of these are dependencies of go-redis.
func TestDependenciesAreFew(t *testing.T) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{end}}{{end}}{{.ImportPath}}`
	const library = "github.com/redisson-go/rratelimiter"
	out, err := exec.Command("go", "list", "-deps", "-f", format, library).Output()
	if err != nil {
		t.Fatal(err)
	}
	var goRedis int
	var beyond []string
	for line := range strings.Lines(string(out)) {
		module, pkg, ok := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case !ok: // the standard library, or this module
		case strings.HasPrefix(module, "github.com/redis/go-redis/"):
			goRedis++
		default:
			beyond = append(beyond, pkg)
		}
	}
	if goRedis == 0 || len(beyond) > 8 {
		t.Errorf("%d packages of go-redis, and beyond it %d, want at most 8: %v",
			goRedis, len(beyond), beyond)
	}
}

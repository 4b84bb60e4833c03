package bounds_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
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

func TestThePageHasTheDefaultsOfGoRedis(t *testing.T) {
	page := string(redistest.Must(os.ReadFile("../../docs/operations.md"))(t))
	one, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{})
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _, _, _ = one.Close(), cluster.Close(), ring.Close() }()
	o, seconds := one.Options(), func(d time.Duration) string { return fmt.Sprint(d.Seconds(), " s") }
	if o.DialTimeout != o.ReadTimeout || o.MaxRetries != cluster.Options().MaxRedirects {
		t.Errorf("defaults that the page takes together differ: %+v", o)
	}
	const heartbeats = 3
	for _, want := range []string{
		fmt.Sprintf("| `ContextTimeoutEnabled` | %t |", o.ContextTimeoutEnabled),
		"| `DialTimeout`, `ReadTimeout` | " + seconds(o.DialTimeout) + " |",
		fmt.Sprintf("| `MaxRetries`, on a cluster `MaxRedirects` | %d |", o.MaxRetries),
		fmt.Sprintf("| `PoolSize` | %d for each core |", o.PoolSize/runtime.GOMAXPROCS(0)),
		"| `PoolTimeout` | `ReadTimeout` + " + seconds(o.PoolTimeout-o.ReadTimeout) + " |",
		"three heartbeats, " + seconds(heartbeats*ring.Options().HeartbeatFrequency) + " by default",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

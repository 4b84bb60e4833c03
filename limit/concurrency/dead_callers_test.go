package concurrency_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/concurrency"
)

// envTaker makes the test binary a process of TestPermitsOfKilledProcessesComeBack. It holds the address of
// Redis and the name of the limit.
const envTaker = "CONCURRENCY_TEST_TAKER"

// TestMain lets the test binary be one of the killed processes.
func TestMain(m *testing.M) {
	if addr, name, ok := strings.Cut(os.Getenv(envTaker), " "); ok {
		fmt.Fprintln(os.Stderr, take(addr, name))
		os.Exit(1)
	}
	redistest.VerifyNoLeaks(m)
}

// mortal is the limit of the killed processes.
var mortal = concurrency.Limit{Most: 6, Lease: 1500 * time.Millisecond}

// take takes one permit after another, prints a line for each, and gives none back.
func take(addr, name string) error {
	leases, err := mortal.LeasesOnRedis(redis.NewClient(&redis.Options{Addr: addr}), name)
	if err != nil {
		return err
	}
	for {
		if _, err := leases.Acquire(context.Background(), 1); err != nil {
			return err
		}
		fmt.Println("granted")
	}
}

// Permits of killed processes come back when their leases end, and processes killed while they waited take
// none. The permits that are out never exceed the limit.
func TestPermitsOfKilledProcessesComeBack(t *testing.T) {
	server, name := redistest.Start(t), redistest.Name(t)
	path := redistest.Must(os.Executable())(t)
	p := onRedis(t, mortal, server.Client(t), name)
	var all sync.WaitGroup
	var kills []func()
	grants := make(chan struct{}, 100)
	for range 3 {
		cmd := exec.CommandContext(t.Context(), path)
		cmd.Env = append(os.Environ(), envTaker+"="+server.Addr+" "+name)
		out := redistest.Must(cmd.StdoutPipe())(t)
		redistest.NoError(t, cmd.Start())
		kills = append(kills, func() { _ = cmd.Process.Kill() })
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		all.Go(func() {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if lines.Text() == "granted" {
					grants <- struct{}{}
				}
			}
		})
	}
	key, look := "{"+name+"}:concurrency", server.Admin()
	for range mortal.Most + 2 { // the rest follows as leases end
		select {
		case <-grants:
		case <-time.After(20 * time.Second):
			t.Fatal("no permit is granted")
		}
		now := look.Time(t.Context()).Val().UnixMicro()
		out := redistest.Must(look.ZCount(t.Context(), key, fmt.Sprintf("(%d", now), "+inf").Result())(t)
		if out > mortal.Most {
			t.Errorf("%d are out at once", out)
		}
	}
	for _, kill := range kills {
		kill()
	}
	start := time.Now()
	all.Wait()
	lease := redistest.Must(p.Acquire(t.Context(), mortal.Most))(t)
	took := time.Since(start)
	if took > mortal.Lease+5*time.Second {
		t.Errorf("all permits are back after %v", took)
	}
	returns(t, lease, nil)
	takes(t, p, mortal.Most, true)
}

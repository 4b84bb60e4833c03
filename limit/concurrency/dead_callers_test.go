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

// envTaker makes TestTakerThatIsKilled take permits. It holds the address of Redis and the name of the limit.
const envTaker = "CONCURRENCY_TEST_TAKER"

// mortal is the limit of the processes that are killed.
var mortal = concurrency.Limit{Most: 6, Lease: 1500 * time.Millisecond}

// TestTakerThatIsKilled is a process of TestKilledCallers. It takes one permit after another, prints a
// line for each, and gives none back.
func TestTakerThatIsKilled(t *testing.T) {
	addr, name, ok := strings.Cut(os.Getenv(envTaker), " ")
	if !ok {
		t.Skip("a process of TestKilledCallers")
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	leases := onRedis(t, mortal, rdb, name)
	for {
		if _, err := leases.Acquire(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		fmt.Println("granted")
	}
}

// Permits of killed processes are back when their leases end, and processes that were killed while they
// waited take none. No more permits than the limit are ever out.
func TestKilledCallers(t *testing.T) {
	server, name := redistest.Start(t), redistest.Name(t)
	path := redistest.Must(os.Executable())(t)
	p := onRedis(t, mortal, server.Client(t), name)
	var all sync.WaitGroup
	var kills []func()
	grants := make(chan struct{}, 100)
	for range 3 {
		cmd := exec.CommandContext(t.Context(), path, "-test.run=^TestTakerThatIsKilled$", "-test.v")
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

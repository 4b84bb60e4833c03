package limit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What a process is told: where Redis is, and a name for each algorithm.
const envProcess = "LIMIT_TEST_PROCESS"

type orders struct {
	Addr  string
	Names map[string]string // by algorithm
}

// The limit of the processes. Its interval is so long that nothing comes back meanwhile.
const (
	rateOfProcesses     = 40
	intervalOfProcesses = 1000 * time.Hour
)

// TestMain lets the test binary be one of the processes.
func TestMain(m *testing.M) {
	if text := os.Getenv(envProcess); text != "" {
		if err := process(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.VerifyNoLeaks(m)
}

// process asks each limiter more often than there are permits, and prints what it got.
func process(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr})
	defer rdb.Close()
	got := map[string]int64{}
	for _, a := range algorithms {
		l, err := a.of(rateOfProcesses, intervalOfProcesses).OnRedis(rdb, o.Names[a.name])
		if err != nil {
			return err
		}
		for range 2 * rateOfProcesses {
			r, err := l.Allow(context.Background(), 1)
			if err != nil {
				return err
			}
			if r.Allowed {
				got[a.name]++
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// Processes on one Redis are granted the limit together, and agree on what is left.
func TestProcesses(t *testing.T) {
	server := redistest.Start(t)
	o := orders{Addr: server.Addr, Names: map[string]string{}}
	for _, a := range algorithms {
		o.Names[a.name] = redistest.Name(t)
	}
	text := redistest.Must(json.Marshal(o))(t)
	path := redistest.Must(os.Executable())(t)

	var mu sync.Mutex
	sum := map[string]int64{}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), path)
			cmd.Env = append(os.Environ(), envProcess+"="+string(text))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			got := map[string]int64{}
			if err == nil {
				err = json.Unmarshal(out, &got)
			}
			if err != nil {
				t.Errorf("a process: %v, saying %s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			for name, n := range got {
				sum[name] += n
			}
		})
	}
	all.Wait()
	for _, a := range algorithms {
		if want := a.burst(rateOfProcesses); sum[a.name] != want {
			t.Errorf("%s: both processes got %d, want %d", a.name, sum[a.name], want)
		}
		own := a.of(rateOfProcesses, intervalOfProcesses)
		r, err := redistest.Must(own.OnRedis(server.Admin(), o.Names[a.name]))(t).Allow(t.Context(), 1)
		if err != nil || r.Allowed || r.Remaining != 0 {
			t.Errorf("%s: a third process sees %+v %v", a.name, r, err)
		}
	}
}

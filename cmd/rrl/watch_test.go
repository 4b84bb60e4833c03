package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestBadWatch(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for args, want := range map[string]string{
		"watch":                 `0 arguments, must be as in "rrl watch NAME..."`,
		"watch x --every 999ms": "--every is 999ms, must be at least 1s",
		"watch x --every soon":  "invalid duration",
		"watch x --count -1":    "--count is -1, must be at least 0",
	} {
		code, stdout, stderr := rrl(t.Context(), append(strings.Fields(args), "--redis", s.Addr)...)
		if code != exitError || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("rrl %s: code %d, printed\n%s\n%s", args, code, stdout, stderr)
		}
	}
}

// Watch sends commands only that Redis calls read-only, or that have to do with the connection.
func TestWatchWritesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	t.Cleanup(func() { _ = c.Close() })
	for name, typ := range map[string]rratelimiter.RateType{
		"api": rratelimiter.Overall, "per": rratelimiter.PerClient,
	} {
		l := c.RateLimiter("app:" + name)
		redistest.NoError(t, l.SetRate(t.Context(), typ, 5, time.Minute))
		if _, err := l.TryAcquire(t.Context(), 2, 0); err != nil {
			t.Fatal(err)
		}
	}
	sent := s.Monitor(t)
	const looks = "2"
	for _, format := range []string{"--json=false", "--json"} {
		code, stdout, stderr := rrl(t.Context(), "watch", "--redis", s.Addr, "--count", looks, format,
			"--name-prefix", "app:", "api", "per", "gone", "api")
		if code != 0 || stderr != "" || strings.Count(stdout, "\n") != 6 {
			t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
		}
	}
	transactions := 0
	for _, command := range sent() {
		if command == "multi" {
			transactions++
		}
		if slices.Contains(flagsOf(t, s, command), "write") {
			t.Errorf("it sent %s", command)
		}
	}
	const want = 2 * (2 + 3 + 2) // the clients of one are found after its first transaction
	if transactions != want {
		t.Errorf("%d transactions, want %d", transactions, want)
	}
}

// flagsOf returns the flags of a command, as COMMAND INFO says them.
func flagsOf(t *testing.T, s *redistest.Server, command string) (flags []string) {
	t.Helper()
	info, err := s.Admin().Do(t.Context(), "COMMAND", "INFO", command).Slice()
	if err != nil || len(info) != 1 {
		t.Fatalf("%s: %v, %v", command, info, err)
	}
	const place = 2
	for _, flag := range info[0].([]any)[place].([]any) {
		flags = append(flags, flag.(string))
	}
	if len(flags) == 0 {
		t.Errorf("%v has no flags", info)
	}
	return flags
}

// Its lines are JSON, also in a pipe of a process of its own; Ctrl-C ends it.
func TestWatchInPipe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := program(ctx, "watch", "--json", "--redis", s.Addr, "gone")
	stdout := redistest.Must(cmd.StdoutPipe())(t)
	redistest.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	for range 2 {
		line, err := lines.ReadString('\n')
		var summary struct{ Name string }
		if err != nil || json.Unmarshal([]byte(line), &summary) != nil || summary.Name != "gone" {
			t.Errorf("%q, %v", line, err)
		}
	}
	redistest.NoError(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("%v, %v", err, cmd.ProcessState)
	}
}

// In a cluster each limiter is on its own server, and so are the clients of one.
func TestWatchOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := rratelimiter.New(cluster.Client(t), rratelimiter.WithID("me"))
	t.Cleanup(func() { _ = c.Close() })
	for _, name := range []string{"a", "b", "c"} {
		l := c.RateLimiter(name)
		redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.PerClient, 5, time.Hour))
		if ok, err := l.TryAcquire(t.Context(), 2, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	code, stdout, stderr := rrl(t.Context(), "watch", "--redis", "redis+cluster://"+cluster.Addrs[0],
		"--count", "1", "a", "b", "c")
	const want = ` client "me" remaining 3 of 5, outstanding 2`
	if code != 0 || stderr != "" || strings.Count(stdout, want) != 3 {
		t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
	}
}

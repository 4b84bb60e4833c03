package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// buildReference returns the path of the reference service.
func buildReference(t testing.TB) string {
	t.Helper()
	const reference = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", reference)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		redistest.Lacks(t, "the reference service, which cannot be built: %v\n%s", err, out)
	}
	return filepath.Join(dir, "service_cmd")
}

// startReference starts the reference service in an environment, and returns it once it serves, or nil if it
// ends or has no configuration.
func startReference(t testing.TB, binary, root string, environment ...string) *process {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), append([]string{
		"REDIS_SOCKET_TYPE=tcp", "USE_STATSD=false", "RUNTIME_ROOT=" + root, "RUNTIME_WATCH_ROOT=false",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port, "HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1",
		"DEBUG_PORT=0",
	}, environment...)...)
	redistest.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	conn := dial(t, address)
	serves := false
	redistest.Until(t, "the reference service serves or ends", func() error {
		select {
		case <-ended:
			return nil
		default:
		}
		_, err := ask(t.Context(), conn, "none=x")
		if serves = err == nil; err != nil && strings.Contains(err.Error(), "no rate limit configuration") {
			return nil
		}
		return err
	})
	if !serves {
		return nil
	}
	return &process{cmd: cmd, grpc: address}
}

// The reference service and ours decide alike, except for what docs/envoy.md lists. Ours is the last result
// of a request where it differs.
func TestBesideTheReference(t *testing.T) {
	redistest.Thorough(t)
	binary, redis, root := buildReference(t), redistest.Start(t).Addr, t.TempDir()
	file := filepath.Join(root, "config", "limits.yaml")
	const limits = "domain: example\ndescriptors:\n" +
		"- {key: one, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
		"- {key: two, rate_limit: {unit: day, requests_per_unit: 2}}\n" +
		"- {key: none, rate_limit: {unit: day, requests_per_unit: 0}}\n" +
		"- {key: free, rate_limit: {unlimited: true}}\n"
	writeFile(t, file, limits)
	theirs := dial(t, startReference(t, binary, root, "REDIS_URL="+redis).grpc)
	ours := dial(t, start(t, "--config", file, "--redis", redis).grpc)
	for _, c := range [][]string{
		{"one=a", "OK 0"}, {"one=a", "OVER 0"}, {"one=a*0", "OVER 0"},
		{"two=a*0", "OK 2"}, {"two=a", "OK 1"}, {"two=a*0", "OK 1"}, {"two=a", "OK 0"},
		{"two=a*0", "OK 0", "OVER 0"}, // a look needs something left
		{"two=b*2", "OK 0"}, {"two=b*2", "OVER 0"}, {"two=b*0", "OVER 0"},
		{"two=c*5", "OVER 0"}, {"two=c", "OVER 0"},
		{"one=d two=d", "OK 0, OK 1"}, {"one=d two=d", "OVER 0, OK 0"}, {"two=d", "OVER 0"},
		{"two=e", "OK 1"}, {"2 two=e", "OVER 0", "OVER 1"}, {"two=e", "OVER 0", "OK 0"}, // refused hits count
		{"none=a", "OVER 0"}, {"none=a*0", "OVER 0"},
		{"free=a", "OK 4294967295"}, {"free=a*9", "OK 4294967295"},
	} {
		request, want := c[0], c[1]
		if got := redistest.Must(ask(t.Context(), theirs, request))(t); got != want {
			t.Errorf("the reference, %s: %s, want %s", request, got, want)
		}
		if got := redistest.Must(ask(t.Context(), ours, request))(t); got != c[len(c)-1] {
			t.Errorf("ours, %s: %s, want %s", request, got, c[len(c)-1])
		}
	}
	// TestSettings, TestAddressesOfRedis and those of Parse have the same results of ours.
	fraction := strings.ReplaceAll(limits, "unit: 2", "unit: 0.5")
	for _, c := range []struct {
		environment, text string
		serves            bool
	}{
		{"LOG_LEVEL=trace", limits, true}, {"LOG_LEVEL=warning", limits, true},
		{"LOG_LEVEL=fatal", limits, true}, {"LOG_LEVEL=panic", limits, true},
		{"LOG_LEVEL=loud", limits, false},
		{"REDIS_URL=redis://" + redis, limits, true}, {"REDIS_URL=redis://" + redis + "/1", limits, true},
		{"REDIS_URL=redis://" + redis + "?db=1", limits, true}, {"REDIS_URL=localhost", limits, false},
		{"", fraction, false},
	} {
		writeFile(t, file, c.text)
		serves := startReference(t, binary, root, "REDIS_URL="+redis, c.environment) != nil
		if serves != c.serves {
			t.Errorf("the reference serves with %s: %v, want %v", c.environment, serves, c.serves)
		}
	}
}

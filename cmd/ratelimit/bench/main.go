// Command bench measures the service beside the reference service, github.com/envoyproxy/ratelimit, in one
// run on one Redis, by gRPC over loopback. It needs redis-server, and the Go command, which builds both. The
// services take turns; each figure is the median of the rounds. CPU and memory are those of Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The packages that the Go command builds.
const (
	reference = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"
	ours      = "github.com/redisson-go/rratelimiter/cmd/ratelimit"
)

// services are the command lines of the contestants. The budget is one that no decision needs: where the two
// cores are busy, the default would let the fallback decide, which does not ask Redis.
var services = []string{"service_cmd", "ratelimit --budget 1s", "ratelimit --budget 1s --lease 1s"}

// limits has one limit, which no run reaches, so that each call takes a hit.
const limits = "domain: bench\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: " +
	"4000000000}}]\n"

func main() {
	rounds := flag.Int("rounds", 5, "turns of each service under each load")
	turn := flag.Duration("turn", 2*time.Second, "length of a turn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *rounds, *turn)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, turn time.Duration) (err error) {
	s := new(redistest.Scope)
	defer func() { s.End(recover(), &err) }()
	dir, err := os.MkdirTemp("", "ratelimit-bench-")
	if err != nil {
		return err
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := build(ctx, dir); err != nil {
		return err
	}
	server := redistest.Start(s)
	info, err := server.Admin().InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	redis, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		return err
	}
	var running []*service
	for _, name := range services {
		one, err := start(ctx, s, dir, name, server.Addr)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		running = append(running, one)
	}
	fmt.Println("| descriptors | streams | | calls/s | CPU µs per call: service | Redis |")
	fmt.Println("|--:|--:|---|--:|--:|--:|")
	for _, descriptors := range []int{1, 100_000} {
		for _, streams := range []int{1, 8, 64, 512} {
			if err := compare(ctx, running, load{descriptors, streams, turn, redis}, rounds); err != nil {
				return err
			}
		}
	}
	for _, one := range running {
		fmt.Printf("\n%s: %d MiB resident at the end\n", one.name, resident(one.pid))
	}
	return nil
}

// build builds both services, and writes the configuration of both.
func build(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"build", "-o", dir, ours}, {"install", reference}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	config := filepath.Join(dir, "ratelimit-data", "config")
	return errors.Join(os.MkdirAll(config, 0o755),
		os.WriteFile(filepath.Join(config, "limits.yaml"), []byte(limits), 0o600))
}

// A service is a running contestant. Its streams share a few connections: one for each worker thread of a
// small Envoy.
type service struct {
	name    string
	pid     int
	clients [4]pb.RateLimitServiceClient
}

// start starts a service, all with the same environment, and waits until it serves. name is its command line.
func start(ctx context.Context, s *redistest.Scope, dir, name, redis string) (*service, error) {
	port, args := freePort(s), strings.Fields(name)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, args[0]), args[1:]...)
	cmd.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis, "USE_STATSD=false",
		"RUNTIME_ROOT="+filepath.Join(dir, "ratelimit-data"), "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=error",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+port, "HOST=127.0.0.1", "PORT="+freePort(s),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+freePort(s),
		"PROMETHEUS_ADDR=127.0.0.1:"+freePort(s), "USE_PROMETHEUS=true")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	one := &service{name: name, pid: cmd.Process.Pid}
	const window = 65535 // fixed, as Envoy has it: grpc-go measures the bandwidth otherwise, by pings
	for i := range one.clients {
		conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithStaticStreamWindowSize(window),
			grpc.WithStaticConnWindowSize(window), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		s.Cleanup(func() { _ = conn.Close() })
		one.clients[i] = pb.NewRateLimitServiceClient(conn)
	}
	var err error
	for range 200 {
		if _, err = one.clients[0].ShouldRateLimit(ctx, ask(0)); err == nil {
			return one, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

func freePort(s *redistest.Scope) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatalf("%w", err)
	}
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

func ask(value int) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "bench", Descriptors: []*descriptor.RateLimitDescriptor{{
		Entries: []*descriptor.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("user-%d", value)}},
	}}}
}

// A load is calls of streams, for a turn. redis is a process.
type load struct {
	descriptors, streams int
	turn                 time.Duration
	redis                int
}

// compare lets the services take turns, and prints a line for each.
func compare(ctx context.Context, services []*service, l load, rounds int) error {
	found := make([][3][]float64, len(services)) // calls a second, and µs of a call: service, Redis
	for range rounds {
		for i, s := range services {
			if _, err := l.run(ctx, s, l.turn/10); err != nil { // connections and caches
				return fmt.Errorf("%s: %w", s.name, err)
			}
			service, redis, start := used(s.pid), used(l.redis), time.Now()
			calls, err := l.run(ctx, s, l.turn)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			for which, v := range [3]float64{
				calls / time.Since(start).Seconds(),
				(used(s.pid) - service) / calls, (used(l.redis) - redis) / calls,
			} {
				found[i][which] = append(found[i][which], v)
			}
		}
	}
	for i, s := range services {
		for _, values := range found[i] {
			slices.Sort(values)
		}
		m := rounds / 2
		fmt.Printf("| %d | %d | %s | %.0f | %.0f | %.1f |\n", l.descriptors, l.streams, s.name,
			found[i][0][m], found[i][1][m], found[i][2][m])
	}
	return nil
}

// run makes calls for a time, and returns how many.
func (l load) run(ctx context.Context, s *service, d time.Duration) (float64, error) {
	var running sync.WaitGroup
	var calls atomic.Int64
	errs := make([]error, l.streams)
	start := time.Now()
	for i := range l.streams {
		running.Go(func() {
			for time.Since(start) < d && errs[i] == nil {
				_, errs[i] = s.clients[i%len(s.clients)].ShouldRateLimit(ctx, ask(rand.IntN(l.descriptors)))
				calls.Add(1)
			}
		})
	}
	running.Wait()
	return float64(calls.Load()), errors.Join(errs...)
}

// used returns the µs of CPU that a process has used.
func used(pid int) float64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, fields, _ := strings.Cut(string(stat), ") ")
	all := append(strings.Fields(fields), make([]string, 13)...)
	user, _ := strconv.ParseFloat(all[11], 64)
	system, _ := strconv.ParseFloat(all[12], 64)
	const tick = 1e4 // µs
	return (user + system) * tick
}

// resident returns the MiB of memory of a process.
func resident(pid int) (kib int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &kib)
	}
	return kib / 1024
}

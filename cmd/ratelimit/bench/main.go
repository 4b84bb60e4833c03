// Command bench measures the service beside the reference service, github.com/envoyproxy/ratelimit, in one
// run on one Redis, by gRPC over loopback. It needs redis-server, and the Go command, which builds both. The
// services take turns; each figure is the median of the rounds. A third service, the floor, decides nothing:
// what it costs is gRPC.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// reference is the command of the reference service.
const reference = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"

const module = "github.com/redisson-go/rratelimiter/cmd/ratelimit"

// services are the command lines of the contestants. The budget is one that no decision needs: where the two
// cores are busy, the default would let the fallback decide, which does not ask Redis.
var services = []string{"ratelimit --budget 1s", "ratelimit --budget 1s --lease 1s", "service_cmd", floor}

// limits has one limit, which no run reaches, so that each call takes a hit.
const limits = "domain: bench\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: " +
	"4000000000}}]\n"

func main() {
	rounds := flag.Int("rounds", 5, "turns of each service under each load")
	turn := flag.Duration("turn", 2*time.Second, "length of a turn")
	floor := flag.String("floor", "", "be the floor, at this address")
	flag.Parse()
	if *floor != "" {
		fmt.Fprintf(os.Stderr, "bench: %v\n", serveFloor(*floor))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *turn); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// A service is a running contestant.
type service struct {
	name    string
	process *exec.Cmd
	address string
}

func run(ctx context.Context, rounds int, turn time.Duration) error {
	dir, err := os.MkdirTemp("", "ratelimit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := prepare(ctx, dir); err != nil {
		return err
	}
	port := freePort()
	server := exec.CommandContext(ctx, "redis-server", "--port", port, "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var running []*service
	defer func() {
		for _, s := range running {
			_ = s.process.Process.Kill()
			_ = s.process.Wait()
		}
	}()
	for _, name := range services {
		s, err := start(ctx, dir, name, "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		running = append(running, s)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer rdb.Close()
	fmt.Println("| load | | calls/s | p50 | p99 | CPU per call: service | Redis | client |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	c := comparison{redisPID: server.Process.Pid, rounds: rounds, turn: turn}
	for _, values := range []int{1, 100_000} {
		for _, streams := range []int{1, 8, 64, 512} {
			c.load = load{streams, values}
			if err := c.compare(ctx, running); err != nil {
				return err
			}
		}
	}
	for _, s := range running {
		fmt.Printf("\n%s: %d MiB resident at the end\n", s.name, resident(s.process.Process.Pid))
	}
	return nil
}

// prepare builds both services, and writes the configuration of both.
func prepare(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"build", "-o", dir, module}, {"install", reference}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	config := filepath.Join(dir, "ratelimit-data", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(config, "limits.yaml"), []byte(limits), 0o600)
}

func freePort() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// start starts a service, all with the same environment, and waits until it serves. name is its command line.
func start(ctx context.Context, dir, name, redisAddress string) (*service, error) {
	port := freePort()
	args := strings.Fields(name)
	if name == floor {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args = []string{self, "-floor", "127.0.0.1:" + port}
	} else {
		args[0] = filepath.Join(dir, args[0])
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redisAddress, "USE_STATSD=false",
		"RUNTIME_ROOT="+filepath.Join(dir, "ratelimit-data"), "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=error",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+port, "HOST=127.0.0.1", "PORT="+freePort(),
		"DEBUG_HOST=127.0.0.1",
		"DEBUG_PORT="+freePort(), "PROMETHEUS_ADDR=127.0.0.1:"+freePort(), "USE_PROMETHEUS=true")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &service{name: name, process: cmd, address: "127.0.0.1:" + port}
	clients, closeAll, err := connect(s.address)
	if err != nil {
		return s, err
	}
	defer closeAll()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 200 {
		if _, err = clients[0].ShouldRateLimit(ctx, ask(0)); err == nil {
			return s, nil
		}
		<-ticker.C
	}
	return s, fmt.Errorf("%s does not serve: %w", name, err)
}

// A comparison is of some services under one load.
type comparison struct {
	load     load
	redisPID int
	rounds   int
	turn     time.Duration
}

// compare lets the services take turns, and prints a line for each.
func (c *comparison) compare(ctx context.Context, services []*service) error {
	found := make([][]figures, len(services))
	for range c.rounds {
		for i, s := range services {
			f, err := s.turn(ctx, c.load, c.redisPID, c.turn)
			if err != nil {
				return fmt.Errorf("%s, %v: %w", s.name, c.load, err)
			}
			found[i] = append(found[i], f)
		}
	}
	for i, s := range services {
		of := func(figure func(figures) float64) float64 {
			all := make([]float64, 0, c.rounds)
			for _, f := range found[i] {
				all = append(all, figure(f))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		fmt.Printf("| %v | %s | %.0f | %.2f ms | %.2f ms | %.0f µs | %.1f µs | %.0f µs |\n", c.load, s.name,
			of(func(f figures) float64 { return f.perSecond }),
			of(func(f figures) float64 { return f.p50.Seconds() * 1e3 }),
			of(func(f figures) float64 { return f.p99.Seconds() * 1e3 }),
			of(func(f figures) float64 { return f.cpu * 1e6 }),
			of(func(f figures) float64 { return f.redis * 1e6 }),
			of(func(f figures) float64 { return f.client * 1e6 }))
	}
	return nil
}

// figures are what a turn measured. CPU is in seconds per call.
type figures struct {
	batch
	cpu, redis, client float64
}

func (s *service) turn(ctx context.Context, l load, redisPID int, d time.Duration) (figures, error) {
	clients, closeAll, err := connect(s.address)
	if err != nil {
		return figures{}, err
	}
	defer closeAll()
	if _, err := l.run(ctx, clients, d/10); err != nil { // connections and caches
		return figures{}, err
	}
	pids := []int{s.process.Process.Pid, redisPID, os.Getpid()}
	var perCall [3]float64
	for n, pid := range pids {
		perCall[n] = -used(pid)
	}
	start := time.Now()
	b, err := l.run(ctx, clients, d)
	calls := b.perSecond * time.Since(start).Seconds()
	for n, pid := range pids {
		perCall[n] = (perCall[n] + used(pid)) / calls
	}
	return figures{b, perCall[0], perCall[1], perCall[2]}, err
}

// used returns the seconds of CPU that a process of Linux has used, 0 elsewhere.
func used(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	all := strings.Fields(fields)
	user, _ := strconv.ParseFloat(all[11], 64)
	system, _ := strconv.ParseFloat(all[12], 64)
	const ticks = 100 // a second
	return (user + system) / ticks
}

// resident returns the MiB of memory that a process of Linux has, 0 elsewhere.
func resident(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	kib := 0
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &kib)
	}
	return kib / 1024
}

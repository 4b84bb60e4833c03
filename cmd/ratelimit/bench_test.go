package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var (
	rounds = flag.Int("rounds", 5, "turns of each service under each load")
	turn   = flag.Duration("turn", 2*time.Second, "length of a turn")
)

// A contestant is a service. Its streams share a few connections: one for each worker thread of a small
// Envoy.
type contestant struct {
	name  string
	pid   int
	conns [4]*grpc.ClientConn
	found [3][]float64 // in a turn: calls a second, and µs of a call, of the service and of Redis
}

// BenchmarkBesideTheReference lets the services take turns on one Redis, by gRPC over loopback, and prints
// medians of the rounds. CPU and memory are those of Linux. The budget is one that no decision needs: where
// two cores are busy, the default would let the fallback decide, which does not ask Redis.
func BenchmarkBesideTheReference(b *testing.B) {
	server, root := redistest.Start(b), b.TempDir()
	file := filepath.Join(root, "config", "limits.yaml")
	// No run reaches the limit, so that each call takes a hit.
	writeFile(b, file, "domain: example\n"+
		"descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 4000000000}}]\n")
	info := redistest.Must(server.Admin().InfoMap(b.Context(), "server").Result())(b)
	redis := redistest.Must(strconv.Atoi(info["Server"]["process_id"]))(b)
	var all []*contestant
	enter := func(name string, p *process) {
		c := &contestant{name: name, pid: p.cmd.Process.Pid}
		const window = 65535 // fixed, as Envoy has it: grpc-go measures the bandwidth otherwise, by pings
		for i := range c.conns {
			c.conns[i] = dial(b, p.grpc, grpc.WithStaticStreamWindowSize(window),
				grpc.WithStaticConnWindowSize(window))
		}
		all = append(all, c)
	}
	enter("the reference", startReference(b, buildReference(b), root, "REDIS_URL="+server.Addr,
		"LOG_LEVEL=error", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+freeAddress(b)))
	enter("ours", start(b, "--config", file, "--redis", server.Addr))
	enter("--lease 1s", start(b, "--config", file, "--redis", server.Addr, "--lease", "1s"))
	fmt.Println("\n| descriptors | streams | | calls/s | CPU µs per call: service | Redis |")
	fmt.Println("|--:|--:|---|--:|--:|--:|")
	for _, descriptors := range []int{1, 100_000} {
		for _, streams := range []int{1, 8, 64, 512} {
			for i := range *rounds * len(all) {
				c := all[i%len(all)]
				c.calls(b, streams, descriptors, *turn/10) // connections and caches
				service, inRedis, start := used(c.pid), used(redis), time.Now()
				n := c.calls(b, streams, descriptors, *turn)
				for which, v := range [3]float64{
					n / time.Since(start).Seconds(), (used(c.pid) - service) / n, (used(redis) - inRedis) / n,
				} {
					c.found[which] = append(c.found[which], v)
				}
			}
			for _, c := range all {
				fmt.Printf("| %d | %d | %s | %.0f | %.0f | %.1f |\n", descriptors, streams, c.name,
					median(c.found[0]), median(c.found[1]), median(c.found[2]))
				c.found = [3][]float64{}
			}
		}
	}
	for _, c := range all {
		fmt.Printf("\n%s: %d MiB resident at the end\n", c.name, resident(c.pid))
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// calls makes calls for a time, and returns how many.
func (c *contestant) calls(b *testing.B, streams, descriptors int, d time.Duration) float64 {
	b.Helper()
	var running sync.WaitGroup
	var calls atomic.Int64
	errs := make([]error, streams)
	start := time.Now()
	for i := range streams {
		running.Go(func() {
			for time.Since(start) < d && errs[i] == nil {
				value := rand.IntN(descriptors)
				_, errs[i] = ask(b.Context(), c.conns[i%len(c.conns)], fmt.Sprint("user=user-", value))
				calls.Add(1)
			}
		})
	}
	running.Wait()
	redistest.NoError(b, errors.Join(errs...))
	return float64(calls.Load())
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

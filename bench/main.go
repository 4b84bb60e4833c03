// Command bench measures this library beside its rivals, on one redis-server of
// their own, and writes what came out to docs/benchmarks.md.
//
//	make bench
//
// It needs redis-server, java and mvn, takes some nine minutes, and leaves
// nothing else behind. Whatever is compared takes turns in short batches, so
// that what else the machine does meets all of them; each figure is the median
// of the rounds, and each ratio that of the ratios within a round.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redisson-go/rratelimiter/internal/shares"
)

// A plan says how much is measured. The tests have one that is far too small to
// mean anything.
type plan struct {
	rounds int
	counts []int         // of callers
	warmup time.Duration // of each batch
	span   time.Duration // of each batch, measured
	jvm    time.Duration // of the JVM before its first batch, with one thread and with 64
	turns  int           // calls of each in a round of turns

	waiters int
	records int // that expire at once, and permits that are outstanding at once
	fill    time.Duration
	window  time.Duration // interval of what is outstanding
	expiry  int           // times that all records expire
	newer   []int         // records that still count then
	wakes   int
	allocs  int // calls by which allocations are counted
	names   int // touched

	scenarios []shares.Scenario
	alone     []shares.Scenario // without Java
	connects  int               // runs of each
	shared    time.Duration     // of each run, measured
	among     time.Duration     // of processes of Go among one another, measured

	parts []string
}

// The parts of the benchmark, in the order in which they run.
var parts = []string{"callers", "waiters", "bytes", "expiry", "wake", "allocs", "idle", "beside"}

func fullPlan() plan {
	return plan{
		rounds: 5, counts: []int{1, 8, 64, 512, 4096},
		warmup: 200 * time.Millisecond, span: time.Second, jvm: 4 * time.Second, turns: 4000,
		waiters: 1000, records: 1_000_000, fill: 9 * time.Second, window: 10 * time.Second,
		expiry: 5, newer: []int{0, 9_999, 20_000},
		wakes: 300, allocs: 2000, names: 1_000_000,
		scenarios: shares.Scenarios, alone: shares.Alone, connects: 5, shared: 5 * time.Second, among: 20 * time.Second,
		parts: parts,
	}
}

func main() {
	shares.Main()
	pl := fullPlan()
	flag.IntVar(&pl.rounds, "rounds", pl.rounds, "how often each contestant has its turn at each number of callers")
	docs := flag.String("docs", "../docs", "the directory that benchmarks.md is written to, with its pictures")
	only := flag.String("only", "", "the parts to run, of "+strings.Join(parts, ",")+"; then nothing is written")
	flag.Parse()
	if *only != "" {
		pl.parts, *docs = strings.Split(*only, ","), ""
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, pl, *docs)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run measures what the plan says, prints the report and, if docs is not empty,
// writes it there with its pictures.
func run(ctx context.Context, out io.Writer, pl plan, docs string) error {
	for _, part := range pl.parts {
		if !slices.Contains(parts, part) {
			return fmt.Errorf("%q is not one of %s", part, strings.Join(parts, ", "))
		}
	}
	r := &report{plan: pl, started: time.Now(), machine: thisMachine()}
	for _, part := range pl.parts {
		start := time.Now()
		if err := r.measure(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", part, time.Since(start).Round(time.Second))
	}
	r.took = time.Since(r.started)
	text := r.markdown()
	if _, err := io.WriteString(out, text); err != nil || docs == "" {
		return err
	}
	return r.write(docs, text)
}

// measure runs one part, in a scope of its own: its servers end with it.
func (r *report) measure(ctx context.Context, part string) (err error) {
	var s scope
	defer func() { s.End(recover(), &err) }()
	switch part {
	case "callers":
		r.callers, err = measureCallers(ctx, &s, r.plan)
	case "waiters":
		r.waiters, err = measureWaiters(ctx, &s, r.plan)
	case "bytes":
		r.bytes, err = measureBytes(ctx, &s, r.plan)
	case "expiry":
		r.expiries, err = measureExpiry(ctx, &s, r.plan)
	case "wake":
		r.wake, err = measureWake(ctx, &s, r.plan)
	case "allocs":
		r.allocs, err = measureAllocs(ctx, &s, r.plan)
	case "idle":
		r.idle, err = measureIdle(ctx, &s, r.plan)
	case "beside":
		r.beside, err = measureBeside(ctx, &s, r.plan)
	}
	return err
}

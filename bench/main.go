// Command bench measures this library, beside its rivals where it has any, on
// Redis servers that it starts and stops itself.
//
// It needs redis-server, and java and mvn for the parts that measure Redisson.
// Contestants take turns in short batches, so that other work on the machine
// disturbs all of them alike. Each figure is the median over the rounds, and
// each ratio is the median of the ratios within a round.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/redisson-go/rratelimiter/internal/shares"
)

type part struct {
	name  string // on the command line and in report.md
	about string // its line in the usage text

	// measure measures it in a scope of its own, which ends with it.
	measure func(ctx context.Context, s *scope) finding
}

// A finding is what a part found out. data is what report.md prints.
type finding struct {
	data    any
	targets []target
}

// parts are all parts, in the order in which they run. The part callers comes first: it is the one that a
// machine warmed by other parts would disturb most.
var parts = []*part{
	{"callers", "1 to 4,096 callers of one limiter, beside Redisson and others", measureCallers},
	{"lone", "one call: Redis time, latency, bytes, Go allocations, beside Redisson and others", measureLone},
	{"waiters", "a thousand waiters at 100 permits a second: order, lateness, script calls", measureWaiters},
	{"bytes", "memory in Redis of a million permits that are outstanding", measureBytes},
	{"expiry", "the longest script after a million records expired at once", measureExpiry},
	{"wake", "how soon a waiter has its permit after a Release by another client", measureWake},
	{"idle", "heap that a process keeps for a million limiters it has used once", measureIdle},
	{"beside", "how waiters of Go and of Java divide a limit that is too small for both", measureBeside},
	{"limits", "Redis time, round trips, bytes of Allow, a user's limit, several limits", measureLimits},
	{"locks", "locks beside rivals: alone, between 64 callers, beside Java, 10,000 held", measureLocks},
	{"users", "a limit for each of 100,000 users, beside rivals", measureUsers},
	{"refusals", "a flood of refused calls, with and without WithRefusalCache", measureRefusals},
	{"leases", "calls and script calls WithLease: a lone caller, many, and 100 processes", measureLeases},
	{"middleware", "time and Go allocations that the middleware adds to a request", measureMiddleware},
	{"observer", "time and Go allocations of an acquire with an observer and without one", measureObserver},
	{"algorithms-memory", "limiters in memory by algorithm, beside rivals", measureMemory},
	{"algorithms-redis", "limiters on Redis by algorithm, beside rivals", measureRedis},
}

type options struct {
	rounds int    // turns of each contestant at each number of callers
	docs   string // directory of the pages; empty: they are only printed
	redraw bool   // writes the pages from the figures of the last run
	keep   bool   // parts that are not measured keep their place on the page
	brief  bool   // measures as little as shows that everything works; for tests
}

// main runs what the command line says. An interrupt ends the servers as well.
func main() {
	shares.Main() // the part "beside" starts this program again as its processes
	o := options{}
	// Five rounds: a median that two disturbed rounds cannot move.
	flag.IntVar(&o.rounds, "rounds", 5, "turns of each contestant at each number of callers")
	flag.StringVar(&o.docs, "docs", "../docs", "directory of the pages, their figures and their pictures")
	flag.BoolVar(&o.redraw, "redraw", false, "measure nothing, write the page from the last run's figures")
	flag.BoolVar(&o.keep, "keep", false, "write the page: parts that are named replace those of the last run")
	flag.BoolVar(&o.brief, "brief", false, "measure too little for figures that mean something")
	flag.Usage = printUsage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// printUsage prints how to run the program, its parts and its flags.
func printUsage() {
	out := flag.CommandLine.Output()
	fmt.Fprint(out, `bench measures this library on Redis servers of its own.

	go run . [flags] [part ...]

Without a part it measures those of the page and writes docs/benchmarks.md and
docs/comparison.md. With parts it prints their figures and writes nothing, or
with -keep writes the page with these figures and all others of the last run.

parts:
`)
	for _, p := range parts {
		fmt.Fprintf(out, "  %-18s %s\n", p.name, p.about)
	}
	fmt.Fprintln(out, "\nflags:")
	flag.PrintDefaults()
}

// run measures the named parts. Without names it measures those of the page and writes the page.
func run(ctx context.Context, out io.Writer, o options, names []string) error {
	if o.redraw {
		return redraw(o.docs)
	}
	o.keep = o.keep && len(names) > 0
	if len(names) > 0 && !o.keep {
		o.docs = "" // a page with some of its parts only would replace the whole one
	}
	// A wrong name is found before anything runs: a run takes minutes.
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p *part) bool { return p.name == name }) {
			return fmt.Errorf("%q is no part; -h lists them", name)
		}
	}
	r := newReport(o.rounds)
	start := time.Now()
	for _, p := range parts {
		if !slices.Contains(names, p.name) && len(names) > 0 {
			continue
		}
		began := time.Now()
		if err := r.measure(ctx, o, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		progress("%s: %s", p.name, time.Since(began).Round(time.Second))
	}
	r.Took = time.Since(start).Round(time.Second).String()
	if o.keep {
		var err error
		if r, err = r.into(o.docs); err != nil {
			return err
		}
	}
	return r.publish(out, o.docs)
}

// progress prints a line to stderr: a run takes minutes, and stdout is for figures.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

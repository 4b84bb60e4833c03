// Command bench measures this library, beside its rivals where it has any, on
// Redis servers that it starts and stops itself.
//
//	make bench                         docs/benchmarks.md and docs/comparison.md, about 20 minutes
//	make cost                          what one acquire costs, about 2 minutes
//	make faultcost                     what faults cost, about 5 minutes
//	cd bench && go run . waiters idle  some parts, printed only
//	cd bench && go run . -keep idle    some parts, and the page with their new figures
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
	"syscall"
	"time"

	"github.com/redisson-go/rratelimiter/internal/shares"
)

// options are what the command line says.
type options struct {
	rounds int    // turns of each contestant at each number of callers
	docs   string // directory of the page; empty prints it only
	redraw bool   // writes the page from the figures of the last run
	keep   bool   // parts that are not measured keep their place on the page
	brief  bool   // measures as little as shows that everything works; for tests
}

// main runs what the command line says. An interrupt ends the servers as well.
func main() {
	shares.Main() // the part "beside" starts this program again as its processes
	rulesMain()   // as does the part "rules"
	o := options{}
	// Five rounds: a median that two disturbed rounds cannot move.
	flag.IntVar(&o.rounds, "rounds", 5, "turns of each contestant at each number of callers")
	flag.StringVar(&o.docs, "docs", "../docs", "directory of the pages, their figures and their pictures")
	flag.BoolVar(&o.redraw, "redraw", false, "measure nothing, write the page from the last run's figures")
	flag.BoolVar(&o.keep, "keep", false, "write the page: parts that are named replace those of the last run")
	flag.Usage = func() { usageText(flag.CommandLine.Output()) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run measures the parts that names select. Without names it measures those of
// the page and writes the page.
func run(ctx context.Context, out io.Writer, o options, names []string) error {
	if o.redraw {
		return redraw(o.docs)
	}
	o.keep = o.keep && len(names) > 0
	if len(names) > 0 && !o.keep {
		o.docs = "" // a page with some of its parts only would replace the whole one
	}
	if len(names) == 0 {
		names = []string{setPage}
	}
	wanted, err := selectParts(names)
	if err != nil {
		return err
	}
	start := time.Now()
	r := newReport(start, o.rounds)
	for _, p := range wanted {
		began := time.Now()
		if err := r.measure(ctx, out, o, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		progress("%s: %s", p.name, time.Since(began).Round(time.Second))
	}
	r.Took = time.Since(start).Round(time.Second).String()
	if len(r.Parts) == 0 {
		return nil // every part has printed its figures itself
	}
	if o.keep {
		if r, err = r.into(o.docs); err != nil {
			return err
		}
	}
	return r.publish(out, o.docs)
}

// progress prints a line to stderr: a run takes minutes, and stdout is for
// figures.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

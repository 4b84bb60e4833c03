// Command cost prints what one acquire costs: this library, Redisson's own code
// in the Java peer, and the least that any script can cost, side by side on one
// Redis server of their own.
//
//	make cost
//
// It needs redis-server, java and mvn, takes less than a minute and a half, and
// leaves nothing behind. The three take turns in short batches, so that what
// else the machine does meets all of them, and each figure is the median over
// the batches.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A plan says how much is measured.
type plan struct {
	rounds int           // in each of them every contestant has a batch in every state
	budget time.Duration // when it is spent no round begins but the first
	batch  int           // calls in a batch
	cold   int           // calls in a batch with noise before each of them
	wire   int           // calls in a batch whose bytes are counted
	warmup time.Duration // for the JVM to compile what it runs, in each state
}

// full is enough for figures that come out much the same the next time.
var full = plan{rounds: 21, budget: 50 * time.Second, batch: 400, cold: 20, wire: 40, warmup: 1500 * time.Millisecond}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, full); err != nil {
		fmt.Fprintf(os.Stderr, "cost: %v\n", err)
		os.Exit(1)
	}
}

// run measures as much as pl says and prints the result.
func run(ctx context.Context, out io.Writer, pl plan) (err error) {
	var s redistest.Scope
	defer func() { s.End(recover(), &err) }()
	b, err := newBench(ctx, &s, pl)
	if err != nil {
		return err
	}
	r, err := b.measureAll(ctx)
	if err != nil {
		return err
	}
	return r.print(out)
}

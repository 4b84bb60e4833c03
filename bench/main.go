// Command bench measures this library beside its rivals, on Redis servers that it starts and stops itself.
//
// A scenario is a table: a row for each contestant, and columns of figures. Contestants take turns, so that
// other work on the machine disturbs all of them alike. Each figure is the median over the rounds, and each
// ratio the median of the ratios within a round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/words"
)

type options struct {
	rounds int    // turns of each contestant
	page   string // whose tables are replaced; empty: they are only printed
	brief  bool   // measures as little as shows that everything works
}

// main runs what the command line says. An interrupt ends the servers as well.
func main() {
	o := options{}
	// Five rounds: a median that two disturbed rounds cannot move.
	flag.IntVar(&o.rounds, "rounds", 5, "turns of each contestant")
	flag.StringVar(&o.page, "page", "", "write the tables between the marks of this page")
	flag.BoolVar(&o.brief, "brief", false, "measure too little for figures that mean something")
	flag.Usage = func() {
		out := flag.CommandLine.Output()
		fmt.Fprint(out, "go run . [flags] [scenario ...]\n\nmeasures these scenarios, or all:\n\n")
		for _, s := range scenarios {
			fmt.Fprintf(out, "  %-11s %s\n", s.name, s.about)
		}
		fmt.Fprintln(out)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run measures the named scenarios, or all, and prints their tables.
func run(ctx context.Context, out io.Writer, o options, names []string) (err error) {
	// A wrong name is found before anything runs: a run takes minutes.
	for _, name := range names {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("%q is no scenario; -h lists them", words.WithoutPasswords(name))
		}
	}
	b := &bench{options: o}
	defer func() { err = errors.Join(err, b.close()) }()
	tables := map[string]string{machineTable: ""}
	for _, s := range scenarios {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		start := time.Now()
		t, err := b.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		tables[s.name] = t.String() + "\n" + b.when()
		fmt.Fprintf(out, "%s: %s\n\n%s\n", s.name, s.about, tables[s.name])
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, time.Since(start).Round(time.Second))
	}
	tables[machineTable] = b.machine().String()
	fmt.Fprint(out, tables[machineTable])
	if o.page == "" {
		return nil
	}
	return publish(o.page, tables)
}

// A bench is what scenarios share: one JVM, and what is known of the machine.
type bench struct {
	options
	peer  *javapeer.Peer // in which Redisson runs; nil until a contestant needs it
	redis string         // version
}

// java returns the JVM, which lives until the end: a warm one is what people run.
func (b *bench) java(ctx context.Context) (*javapeer.Peer, error) {
	if b.peer != nil {
		return b.peer, nil
	}
	peer, err := javapeer.Start(ctx, "")
	if err == nil {
		b.peer = peer
	}
	return peer, err
}

func (b *bench) close() error {
	if b.peer == nil {
		return nil
	}
	return b.peer.Close()
}

// measure runs a scenario in an env of its own, so that no scenario takes time from the next one.
func (b *bench) measure(ctx context.Context, s scenario) (t table, err error) {
	e := &env{bench: b, scenario: s}
	// Servers fail a scenario by a panic, which End makes an error.
	defer func() { e.End(recover(), &err) }()
	e.start(ctx)
	if s.custom != nil {
		return s.custom(ctx, e), nil
	}
	return e.turns(ctx), nil
}

// publish replaces the tables of a page, each of which stands between two marks. A table without a place is
// only printed.
func publish(page string, tables map[string]string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	all := string(text)
	for name, t := range tables {
		before, rest, _ := strings.Cut(all, mark(name))
		if _, after, found := strings.Cut(rest, endMark); found {
			all = before + mark(name) + t + endMark + after
		}
	}
	return os.WriteFile(page, []byte(all), 0o644)
}

const endMark = "<!--end-->"

func mark(name string) string { return "<!--" + name + "-->\n\n" }

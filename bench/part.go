package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
)

// A part measures one thing. It is a file of its own and a line in parts; if it
// belongs to the page, report.md has a section for it.
type part struct {
	// The command line takes names of parts and of sets, so no part has the name
	// of a set that it is not in.
	name  string // on the command line and in report.md
	about string // its line in the usage text
	set   string // the parts that `make` runs together

	// measure measures it in a scope of its own, which ends with it.
	measure func(ctx context.Context, s *scope) (finding, error)
}

// A finding is what a part found out. A part that prints its figures itself
// returns an empty one.
type finding struct {
	// data is what report.md prints. It is stored as JSON: the page can be
	// written again without measuring again.
	data    any
	targets []target
}

// The sets of parts.
const (
	setPage   = "page"   // docs/benchmarks.md
	setCost   = "cost"   // printed: one acquire
	setFaults = "faults" // printed: what happens when something breaks
)

// sets are all sets, in the order of the usage text.
var sets = []string{setPage, setCost, setFaults}

// parts are all parts, in the order in which they run. The part callers comes
// first: it is the one that a machine warmed by other parts would disturb most.
var parts = []*part{
	callersPart, waitersPart, bytesPart, expiryPart, wakePart, allocsPart, idlePart, besidePart,
	limitsPart, locksPart, usersPart, middlewarePart, observerPart,
	memoryPart, redisPart, rulesPart,
	costPart,
	againPart, killedPart, latePart, handlesPart, oncePart, manyPart,
}

// selectParts returns the parts that names select, each once and in the order
// of parts. A name is that of a part or of a set.
func selectParts(names []string) (wanted []*part, err error) {
	// A wrong name is found before anything runs: a run takes minutes.
	for _, name := range names {
		known := func(p *part) bool { return p.name == name || p.set == name }
		if !slices.ContainsFunc(parts, known) {
			return nil, fmt.Errorf("%q is neither a part nor a set; -h lists them", name)
		}
	}
	for _, p := range parts {
		if slices.Contains(names, p.name) || slices.Contains(names, p.set) {
			wanted = append(wanted, p)
		}
	}
	return wanted, nil
}

// usageText writes the usage text: how to run the program, its parts by set,
// and its flags.
func usageText(out io.Writer) {
	fmt.Fprint(out, `bench measures this library on Redis servers of its own.

	go run . [flags] [part or set ...]

Without a part it runs the set "page" and writes docs/benchmarks.md.
With parts or sets it prints their figures and writes nothing, or with -keep
writes the page anew with these figures and all others of the last run.
`)
	for _, set := range sets {
		fmt.Fprintf(out, "\nset %s:\n", set)
		for _, p := range parts {
			if p.set == set {
				fmt.Fprintf(out, "  %-9s %s\n", p.name, p.about)
			}
		}
	}
	fmt.Fprintln(out, "\nflags:")
	flag.CommandLine.SetOutput(out)
	flag.PrintDefaults()
}

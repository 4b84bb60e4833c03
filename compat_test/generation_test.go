package compat_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A generation is a release of Redisson that shares limiters with Go: its process with two instances, and two
// Go clients that write records it can read. Releases near it follow the same rules.
type generation struct {
	version string
	peer    *javapeer.Peer
	javas   []*javaSide
	gos     []*goSide
}

// newest is the release of the pom, which most specs use. It runs as long as the
// suite. The others run one at a time, each as long as its specs.
var newest = &generation{version: "4.7.0", javas: javas, gos: gos}

// older are the other generations under test. Each but the first differs from the
// one before it. By default only the two that differ most are tested.
//
// REDISSON_VERSIONS names others, from 3.15.5 on, separated by commas: what they
// should do follows from their numbers. "all" is the list of CI.
var older = func() (list []*generation) {
	versions := "3.16.8,3.26.0"
	if os.Getenv("CI") == "true" {
		versions = "all"
	}
	versions = cmp.Or(os.Getenv("REDISSON_VERSIONS"), versions)
	if versions == "all" {
		versions = "3.15.5,3.16.8,3.20.1,3.26.0,3.34.1,3.37.0,3.52.0"
	}
	for version := range strings.SplitSeq(versions, ",") {
		if version == newest.version {
			continue
		}
		list = append(list, newGeneration(version))
	}
	return list
}()

func newGeneration(version string) *generation {
	g := &generation{version: version}
	g.javas = []*javaSide{{client: "j1", from: g}, {client: "j2", from: g}}
	g.gos = []*goSide{{format: g.beside()}, {format: g.beside()}}
	return g
}

// The versions since which Redisson has what Go has.
const (
	sinceKeepAlive = "3.37.0" // where it was a time to live
	sinceExpireIf  = "3.17.0" // and getExpireTime
	sinceRelease   = "3.52.0"
	sinceUpdate    = "4.4.0" // and keepState
)

// start builds the process if necessary, starts it, and connects all clients to the server of the suite.
func (g *generation) start(ctx SpecContext) {
	version := g.version
	if g == newest {
		version = "" // other packages also use this build
	}
	var err error
	g.peer, err = javapeer.Start(ctx, version, javapeer.SmallJVM...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(g.peer.Close)
	Expect(g.peer.Version()).To(Equal(g.version))
	for _, j := range g.javas {
		j.id, err = g.peer.Connect(ctx, j.client, server.Addr)
		Expect(err).NotTo(HaveOccurred())
	}
	for _, s := range g.gos {
		s.start()
	}
}

// since reports whether this is that version or a later one.
func (g *generation) since(version string) bool {
	return slices.Compare(versionNumbers(g.version), versionNumbers(version)) >= 0
}

func (g *generation) before(version string) bool { return !g.since(version) }

// versionNumbers returns the three numbers of a version.
func versionNumbers(version string) []int {
	numbers := make([]int, 3)
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]); err != nil {
		panic(fmt.Sprintf("version %q of Redisson: %v", version, err))
	}
	return numbers
}

// writes returns the format of its own records.
func (g *generation) writes() int {
	switch {
	case g.since("3.21.0"):
		return wire.Bc0I16
	case g.since("3.17.0"):
		return wire.Bc0I8
	case g.since("3.16.4"):
		return wire.Lc0I
	}
	return wire.FI
}

// beside returns the format that Go must write beside it: the default, if the generation can read that.
func (g *generation) beside() int {
	if g.since("3.17.0") {
		return wire.Bc0I16
	}
	return g.writes()
}

// The matrix: the same specs beside each generation of Redisson, of which some are about what sets that
// generation apart. docs/versions.md says the same for users.
var _ = func() bool {
	for _, g := range older {
		Describe("Redisson "+g.version, Ordered, ContinueOnFailure, Label("matrix", thorough), func() {
			BeforeAll(g.start, NodeTimeout(20*time.Minute)) // may have to build it
			besideSpecs(g)
			nameSpecs(g)
			togetherSpecs(g, 30, 300*time.Millisecond, 1500*time.Millisecond)
		})
	}
	return true
}()

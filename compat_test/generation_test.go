package compat_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A generation is a release of Redisson that shares limiters with Go: its process
// with two instances, and two Go clients that write records it can read. Releases
// near it follow the same rules.
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

// labels returns those of specs beside the generation.
func (g *generation) labels(of string) Labels {
	if g == newest {
		return Label(of)
	}
	return Label(of, thorough)
}

func newGeneration(version string) *generation {
	g := &generation{version: version}
	g.javas = []*javaSide{{client: "j1", from: g}, {client: "j2", from: g}}
	g.gos = []*goSide{{format: g.beside()}, {format: g.beside()}}
	return g
}

// The versions since which Redisson has what Go has.
const (
	sinceTrySetRateKeepAlive = "3.38.0" // in 3.37.0 it was a time to live
	sinceSetRateKeepAlive    = "3.46.0" // with the check of its length
	sinceExpireIf            = "3.17.0" // and getExpireTime
	sinceRelease             = "3.52.0"
	sinceUpdateRate          = "4.4.0" // and keepState
)

// smallJVM are the options of a JVM that starts fast and needs little memory.
var smallJVM = []string{"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// start builds the process if necessary, starts it, and connects all clients to the
// server of the suite.
func (g *generation) start(ctx SpecContext) {
	version, options := g.version, smallJVM
	if g == newest {
		version, options = "", nil // other packages also use this build, and its speed matters
	}
	var err error
	g.peer, err = javapeer.Start(ctx, version, options...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(g.peer.Close)
	Expect(g.peer.Version()).To(Equal(g.version))
	for _, j := range g.javas {
		j.id, err = g.peer.Connect(ctx, j.client, server.Addr)
		Expect(err).NotTo(HaveOccurred())
	}
	for _, s := range g.gos {
		s.c = rratelimiter.New(server.Client(GinkgoT()), writing(s.format))
		DeferCleanup(s.c.Close)
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

// interval returns the interval for a spec that waits for it: a short one for the
// older generations, because there are many.
func (g *generation) interval(d time.Duration) time.Duration {
	if g == newest {
		return d
	}
	return min(d, 400*time.Millisecond)
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

// beside returns the format that Go must write beside it: the default, if the
// generation can read that.
func (g *generation) beside() int {
	if g.since("3.17.0") {
		return wire.Bc0I16
	}
	return g.writes()
}

// reads returns the permits that it reads out of a record; ok is false if its script
// fails. It reads only its own format right.
func (g *generation) reads(record string) (permits int64, ok bool) {
	b, length := []byte(record), uint64(0)
	switch g.beside() {
	case wire.FI:
		b = b[4:]
	case wire.Lc0I:
		length, b = binary.LittleEndian.Uint64(b), b[8:]
	default:
		length, b = uint64(b[0]), b[1:]
	}
	if length+4 > uint64(len(b)) {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint32(b[length:])), true
}

// A need reports whether a spec is for these sides.
type need func(actor, see side) bool

// actsSince is for what Java can do only since version.
func actsSince(version string) need { return func(actor, _ side) bool { return actor.has(version) } }

func seesSince(version string) need { return func(_, see side) bool { return see.has(version) } }

// directions returns an entry of a table for each direction. Two Go clients are
// tested only where they write other records than beside the newest.
func (g *generation) directions(needs ...need) (entries []TableEntry) {
	add := func(text string, actor, see side) {
		if !slices.ContainsFunc(needs, func(n need) bool { return !n(actor, see) }) {
			entries = append(entries, Entry(text, actor, see))
		}
	}
	add("Go acts, Java sees", g.gos[0], g.javas[0])
	add("Java acts, Go sees", g.javas[0], g.gos[0])
	if g == newest || g.beside() != newest.beside() {
		add("Go acts, another Go sees", g.gos[0], g.gos[1])
	}
	return entries
}

// formatOf returns the format of a record by its shape.
func formatOf(record string) int {
	GinkgoHelper()
	switch {
	case len(record) == 21 && record[0] == 16:
		return wire.Bc0I16
	case len(record) == 13 && record[0] == 8:
		return wire.Bc0I8
	case len(record) == 20 && strings.HasPrefix(record, "\x08\x00\x00\x00\x00\x00\x00\x00"):
		return wire.Lc0I
	case len(record) == 8:
		return wire.FI
	}
	Fail(fmt.Sprintf("a record in no format of Redisson: %q", record))
	return -1
}

package compat_test

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/beside.txt
var besideTable string

var _ = Describe("Go and Java beside each other", func() { besideSpecs(newest) })

// besideSpecs has a spec for each row of testdata/beside.txt and each direction in which the row may be
// played beside a generation.
func besideSpecs(g *generation) {
	rows := fixtures.Rows(besideTable)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		for text, sides := range g.directions() {
			row := stepsOf(rows[name])
			directed := slices.ContainsFunc(row, func(step []string) bool { return step[0] == "a" })
			if !directed && text != goActs || !g.plays(row, sides) {
				continue
			}
			if text = name + ": " + text; !directed {
				text = name
			}
			It(text, func(ctx SpecContext) {
				p := &play{ctx: ctx, generation: g, sides: sides}
				p.named(redistest.Name(GinkgoT()))
				for _, step := range row {
					By(strings.Join(step, " "))
					p.does(step)
				}
			})
		}
	}
}

func stepsOf(row string) (all [][]string) {
	for step := range strings.SplitSeq(row, ";") {
		all = append(all, strings.Fields(step))
	}
	return all
}

// goActs is the direction of rows that have none.
const goActs = "Go acts, Java sees"

// directions returns who is who. Two Clients of Go are tested only where they write other records than
// beside the newest.
func (g *generation) directions() map[string]map[string]side {
	of := func(a, b side) map[string]side {
		sides := map[string]side{"a": a, "b": b, "java": g.javas[0], "java2": g.javas[1], "go": g.gos[0],
			"go2": g.gos[1], "new": newest.javas[1]}
		for format, s := range writers {
			sides[format] = s
		}
		return sides
	}
	all := map[string]map[string]side{
		goActs:               of(g.gos[0], g.javas[0]),
		"Java acts, Go sees": of(g.javas[0], g.gos[0]),
	}
	if g == newest || g.beside() != newest.beside() {
		all["Go acts, another Go sees"] = of(g.gos[0], g.gos[1])
	}
	return all
}

// needed are the versions since which Redisson has a call, by the words of the step.
var needed = map[string]string{
	"give": sinceRelease, "ends": sinceExpireIf,
	"ifset": sinceExpireIf, "ifnotset": sinceExpireIf, "ifgreater": sinceExpireIf, "ifless": sinceExpireIf,
	"update": sinceUpdate, "update keep": sinceUpdate, "update alive": sinceUpdate, "rate keep": sinceUpdate,
	"try alive": sinceKeepAlive, "rate alive": "3.46.0", // which checks its length
}

// can reports whether a side has the call of a step.
func can(s side, step []string) bool {
	j, java := s.(*javaSide)
	if olderServer && (step[1] == "ends" || java && strings.HasPrefix(step[1], "if")) {
		return false
	}
	c, keep := rateOf(step[2:])
	word := step[1]
	if keep {
		word += " keep"
	}
	if c.KeepAlive != 0 && rated[step[1]] {
		word += " alive"
	}
	return !java || j.generation().since(cmp.Or(needed[word], "0.0.0"))
}

// plays reports whether this generation, on this server, has what a row needs.
func (g *generation) plays(row [][]string, sides map[string]side) bool {
	for _, step := range row {
		s := sides[step[0]]
		if step[0] == "since" && g.before(step[1]) || step[0] == "before" && g.since(step[1]) ||
			s != nil && !can(s, step) {
			return false
		}
	}
	return true
}

// olderServer reports whether the server of the suite lacks what is new in Redis 7.0.
var olderServer = strings.HasPrefix(os.Getenv(infoEnv), "redis_version:5.") ||
	strings.HasPrefix(os.Getenv(infoEnv), "redis_version:6.")

// A play is a row under way.
type play struct {
	*generation
	ctx   SpecContext
	sides map[string]side
	goes  map[side]*rratelimiter.RateLimiter // the limiters of Go
	name  string
	keys  keys

	start    time.Time   // of mark
	at       time.Time   // of the last expireAt
	reserved []string    // IDs
	ended    chan error  // of waits
	deleted  chan string // of listens
	words    []string    // of the step under way
}

// named makes the sides use a limiter of that name.
func (p *play) named(name string) {
	p.name, p.keys, p.goes = name, keysOf(name), map[side]*rratelimiter.RateLimiter{}
}

// goLimiter returns the limiter of a side that is Go, the same one in each step.
func (p *play) goLimiter(s side) *rratelimiter.RateLimiter {
	if p.goes[s] == nil {
		p.goes[s] = s.(*goSide).c.RateLimiter(p.name)
	}
	return p.goes[s]
}

func (p *play) does(step []string) {
	GinkgoHelper()
	s, word := p.sides[step[0]], step[0]
	if s != nil {
		word, step = step[1], step[1:]
	}
	p.words = step[1:]
	call, do, l := calls[word], looks[word], limiter(nil)
	switch {
	case s == nil && do != nil:
		do(p, p.words)
		return
	case s == nil || call == nil:
		Fail("no such step: " + word)
	}
	if l = s.limiter(p.name); s.String() == "Go" {
		l = compare.Go(p.goLimiter(s))
	}
	call(p, s, l)
}

// number returns a word of the step as a number, or 0.
func (p *play) number(i int) int64 {
	n, _ := strconv.ParseInt(append(slices.Clone(p.words), "", "")[i], 10, 64)
	return n
}

// span returns a word of the step as a duration, or 0.
func (p *play) span(i int) time.Duration {
	d, _ := time.ParseDuration(append(slices.Clone(p.words), "", "")[i])
	return d
}

// said expects what the words of the step say.
func (p *play) said(ok bool, err error) {
	GinkgoHelper()
	switch {
	case slices.Contains(p.words, "bad"):
		fails(compare.BadArgument, err)
	case slices.Contains(p.words, "no"):
		no(ok, err)
	default:
		yes(ok, err)
	}
}

// rated are the words of steps with a rate.
var rated = map[string]bool{"try": true, "rate": true, "update": true}

// rateOf returns the rate of a step, and whether it keeps the state.
func rateOf(words []string) (c rratelimiter.Config, keep bool) {
	for i, word := range words {
		n, _ := strconv.ParseInt(word, 10, 64)
		d, _ := time.ParseDuration(word)
		switch {
		case i == 0:
			c.Rate = n
		case i == 1:
			c.Interval = d
		case d != 0:
			c.KeepAlive = d
		case word == "each":
			c.Type = perClient
		}
		keep = keep || word == "keep"
	}
	return c, keep
}

// state returns the value and the records that a step names.
func (p *play) state() (s state) {
	if p.words[0] != "-" {
		s.value = p.words[0]
	}
	for i := range p.words[1:] {
		s.records = append(s.records, p.number(i+1))
	}
	return s
}

// renames renames the limiter. Its object in Go has the new name then.
func (p *play) renames(s side, l limiter) {
	GinkgoHelper()
	old, goes := p.name, p.goes
	p.named(redistest.Name(GinkgoT()))
	done(l.Rename(p.ctx, p.name))
	is(0)(look.Exists(p.ctx, old).Result())
	if s.String() == "Go" {
		p.goes = goes
		Expect(look.Keys(p.ctx, "*"+old+"*").Val()).To(BeEmpty())
	}
}

// onKeys calls do with the keys of hash, value and records, and the words of the step.
func (p *play) onKeys(do func(key, word string, d time.Duration)) {
	for i, key := range []string{p.keys.hash, p.keys.value, p.keys.permits}[:len(p.words)] {
		do(key, p.words[i], p.span(i))
	}
}

// recordOf returns a record of Redisson. Its random bytes are always the same; those of an fI begin as most
// of Redisson's do.
func recordOf(format int, permits byte) string {
	const random = "\xa1\xb2\x13\x24\x35\x46\x57\x68\x79\x8a\x9b\xac\xbd\xce\xdf\xe0"
	before := map[int]string{
		wire.Bc0I16: "\x10" + random, wire.Bc0I8: "\x08" + random[:8],
		wire.Lc0I: "\x08\x00\x00\x00\x00\x00\x00\x00" + random[:8], wire.FI: "\x88\x10\x89\xdd",
	}
	return before[format] + string([]byte{permits, 0, 0, 0})
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

// roughly rounds ms that are left up to whole tens of seconds.
func roughly(ms int64, err error) (int64, error) {
	if ms > 0 {
		ms = (ms + 9999) / 10_000 * 10_000
	}
	return ms, err
}

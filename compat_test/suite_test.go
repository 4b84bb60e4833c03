// Package compat_test proves that Go and Java share a limiter: the real Redisson (the project in java/) and
// this library work on the same keys of one redis-server.
package compat_test

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// go-redis would print each connection that breaks here.
func init() { logging.Disable() }

// patience bounds every wait for something that must come.
const patience = 20 * time.Second

func TestCompat(t *testing.T) {
	t.Parallel() // beside TestServers
	redistest.Require(t, cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"))
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if testing.Short() && suite.LabelFilter == "" {
		suite.LabelFilter = "!" + thorough
	}
	// What Ginkgo prints counts as the output of a test beside this one, and is lost if that passes.
	ReportAfterSuite("failures", func(r Report) {
		for _, spec := range r.SpecReports {
			if spec.Failed() {
				t.Errorf("%s\n%s\n%s", spec.FullText(), spec.Failure.Location, spec.Failure.Message)
			}
		}
	})
	RunSpecs(t, "Go and Java on the same keys", suite, reporter)
}

// thorough labels specs of make test ALL=1, which go test -short leaves out: what they promise is shown once
// beside the newest Redisson, and these show it beside others, under faults, or by more rounds.
const thorough = "thorough"

// All specs share one server, one peer with two Redisson instances, and two Go
// clients. Each spec uses new names for its limiters.
var (
	server *redistest.Server
	look   *redis.Client // for looking at the keys
	peer   *javapeer.Peer
	javas  = []*javaSide{{client: "j1"}, {client: "j2"}}
	gos    = []*goSide{{}, {}}

	// writers are Clients by the format of their records.
	writers = map[string]*goSide{"i16": {format: wire.Bc0I16}, "i8": {format: wire.Bc0I8},
		"lc": {format: wire.Lc0I}, "fi": {format: wire.FI}}
)

// buildOlder builds the older peers while the first specs run. If it fails, the specs of one repeat it.
func buildOlder() {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for _, g := range older {
			_, _ = javapeer.Build(ctx, g.version)
		}
	})
	DeferCleanup(func() {
		stop()
		all.Wait()
	})
}

var _ = BeforeSuite(func(ctx SpecContext) {
	server = redistest.Start(GinkgoT(), "--notify-keyspace-events", "KE$gx")
	look = server.Admin()
	newest.start(ctx)
	for _, s := range writers {
		s.start()
	}
	peer = newest.peer
	if !testing.Short() {
		buildOlder()
	}
}, NodeTimeout(20*time.Minute))

// keys are the names of a limiter's keys.
type keys struct {
	hash, value, permits string
}

func keysOf(name string) keys {
	return keys{hash: name, value: "{" + name + "}:value", permits: "{" + name + "}:permits"}
}

func (k keys) of(id string) keys {
	return keys{k.hash, k.value + ":" + id, k.permits + ":" + id}
}

// state is what Redis holds of a limiter: the value string, and the permits of the
// records, smallest first (records of one ms have no order in time).
type state struct {
	value   string
	records []int64
}

func (k keys) state(ctx context.Context) (s state) {
	GinkgoHelper()
	s.value = look.Get(ctx, k.value).Val()
	members, err := look.ZRange(ctx, k.permits, 0, -1).Result()
	Expect(err).NotTo(HaveOccurred())
	for _, m := range members {
		n, err := wire.Permits(m)
		Expect(err).NotTo(HaveOccurred())
		s.records = append(s.records, n)
	}
	slices.Sort(s.records)
	return s
}

const (
	overall   = rratelimiter.Overall
	perClient = rratelimiter.PerClient
	minute    = time.Minute
)

func config(typ rratelimiter.RateType, rate int64, interval time.Duration) rratelimiter.Config {
	return rratelimiter.Config{Type: typ, Rate: rate, Interval: interval}
}

// A side is one of the two languages.
type side interface {
	String() string
	limiter(name string) limiter
	ID() string
	writes() int
}

// A limiter is what both languages can do with one, in one form.
type limiter = compare.Limiter

// goSide is a Client of this library.
type goSide struct {
	c      *rratelimiter.Client
	format int
}

func (g *goSide) String() string              { return "Go" }
func (g *goSide) ID() string                  { return g.c.ID() }
func (g *goSide) limiter(name string) limiter { return compare.Go(g.c.RateLimiter(name)) }
func (g *goSide) writes() int                 { return g.format }

func (g *goSide) start(opts ...rratelimiter.Option) {
	g.c = rratelimiter.New(server.Client(GinkgoT()), append(opts, writing(g.format))...)
	DeferCleanup(g.c.Close)
}

// writing returns the option of a Client that writes records of a format.
func writing(format int) rratelimiter.Option {
	return rratelimiter.WithRedisson(wire.Layouts[format].Since)
}

// javaSide is one Redisson instance of a peer.
type javaSide struct {
	client, id string
	from       *generation // nil: the newest
}

func (j *javaSide) generation() *generation { return cmp.Or(j.from, newest) }

func (j *javaSide) String() string { return "Java" }
func (j *javaSide) ID() string     { return j.id }
func (j *javaSide) writes() int    { return j.generation().writes() }

func (j *javaSide) limiter(name string) limiter {
	return j.generation().peer.Limiter(j.client, name)
}

// yes expects (true, nil).
func yes(ok bool, err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	Expect(ok).To(BeTrue())
}

// no expects (false, nil).
func no(ok bool, err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	Expect(ok).To(BeFalse())
}

// is expects a number.
func is(want int64) func(int64, error) {
	return func(got int64, err error) {
		GinkgoHelper()
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(want))
	}
}

func done(err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
}

// fails expects an error of a kind.
func fails(kind string, err error) {
	GinkgoHelper()
	Expect(compare.ErrorKind(err)).To(Equal(kind))
}

package compat_test

import (
	"cmp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

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

// start starts its Client.
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

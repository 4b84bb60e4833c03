package compat_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// A side is one of the two languages.
type side interface {
	String() string
	limiter(name string) limiter
	ID() string
	has(version string) bool // whether it can do what Redisson can since version
	writes() rratelimiter.RecordFormat
}

// A limiter is what both languages can do with one, in one form.
type limiter interface {
	TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error)
	SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error
	UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error)
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Acquire(ctx context.Context, permits int64) error
	Release(ctx context.Context, permits int64) error
	AvailablePermits(ctx context.Context) (int64, error)
	Config(ctx context.Context) (rratelimiter.Config, error) // KeepAlive is not among what Java answers
	Delete(ctx context.Context) (bool, error)
	Exists(ctx context.Context) (bool, error)
	Rename(ctx context.Context, newName string) error
	Expire(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireAt(ctx context.Context, t time.Time) (bool, error)
	ExpireIfSet(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireIfNotSet(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireIfGreater(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireIfLess(ctx context.Context, ttl time.Duration) (bool, error)
	ClearExpire(ctx context.Context) (bool, error)
	TimeToLive(ctx context.Context) (ms int64, err error)     // -1: none, -2: no limiter
	ExpireTime(ctx context.Context) (unixMs int64, err error) // below 0: none
}

// goSide is a Client of this library.
type goSide struct {
	c      *rratelimiter.Client
	format rratelimiter.RecordFormat
}

func (g *goSide) String() string                    { return "Go" }
func (g *goSide) ID() string                        { return g.c.ID() }
func (g *goSide) limiter(name string) limiter       { return goLimiter{g.c.RateLimiter(name)} }
func (g *goSide) has(string) bool                   { return true }
func (g *goSide) writes() rratelimiter.RecordFormat { return g.format }

type goLimiter struct{ *rratelimiter.RateLimiter }

func goOptions(c rratelimiter.Config, keepState bool) (opts []rratelimiter.RateOption) {
	if c.KeepAlive != 0 {
		opts = append(opts, rratelimiter.WithKeepAlive(c.KeepAlive))
	}
	if keepState {
		opts = append(opts, rratelimiter.WithKeepState())
	}
	return opts
}

func (l goLimiter) TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error) {
	return l.RateLimiter.TrySetRate(ctx, c.Type, c.Rate, c.Interval, goOptions(c, false)...)
}

func (l goLimiter) SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error {
	return l.RateLimiter.SetRate(ctx, c.Type, c.Rate, c.Interval, goOptions(c, keepState)...)
}

func (l goLimiter) UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error) {
	return l.RateLimiter.UpdateRate(ctx, c.Type, c.Rate, c.Interval, goOptions(c, keepState)...)
}

func (l goLimiter) Config(ctx context.Context) (rratelimiter.Config, error) {
	c, err := l.RateLimiter.Config(ctx)
	c.KeepAlive = 0
	return c, err
}

func (l goLimiter) TimeToLive(ctx context.Context) (int64, error) {
	d, err := l.RemainTimeToLive(ctx)
	if d > 0 {
		d /= time.Millisecond
	}
	return int64(d), err
}

func (l goLimiter) ExpireTime(ctx context.Context) (int64, error) {
	t, err := l.RateLimiter.ExpireTime(ctx)
	if t.IsZero() {
		return -1, err
	}
	return t.UnixMilli(), err
}

// javaSide is one Redisson instance of a peer.
type javaSide struct {
	client, id string
	from       *generation // nil: the newest
}

func (j *javaSide) generation() *generation { return cmp.Or(j.from, newest) }

func (j *javaSide) String() string                    { return "Java" }
func (j *javaSide) ID() string                        { return j.id }
func (j *javaSide) has(version string) bool           { return j.generation().since(version) }
func (j *javaSide) writes() rratelimiter.RecordFormat { return j.generation().writes() }

func (j *javaSide) limiter(name string) limiter {
	return javaLimiter{j.generation().peer.Limiter(j.client, name)}
}

type javaLimiter struct{ *javapeer.Limiter }

func (l javaLimiter) TrySetRate(ctx context.Context, c rratelimiter.Config) (bool, error) {
	return l.Limiter.TrySetRate(ctx, c.Type.String(), c.Rate, c.Interval, c.KeepAlive)
}

func (l javaLimiter) SetRate(ctx context.Context, c rratelimiter.Config, keepState bool) error {
	if keepState {
		return l.SetRateArgs(ctx, c.Type.String(), c.Rate, c.Interval, c.KeepAlive, true)
	}
	return l.Limiter.SetRate(ctx, c.Type.String(), c.Rate, c.Interval, c.KeepAlive)
}

func (l javaLimiter) UpdateRate(ctx context.Context, c rratelimiter.Config, keepState bool) (bool, error) {
	return l.Limiter.UpdateRate(ctx, c.Type.String(), c.Rate, c.Interval, c.KeepAlive, keepState)
}

func (l javaLimiter) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if timeout == 0 {
		return l.Limiter.TryAcquire(ctx, permits)
	}
	return l.TryAcquireTimeout(ctx, permits, timeout)
}

func (l javaLimiter) Config(ctx context.Context) (rratelimiter.Config, error) {
	c, err := l.Limiter.Config(ctx)
	typ := rratelimiter.Overall
	if c.Type == javapeer.PerClient {
		typ = rratelimiter.PerClient
	}
	return rratelimiter.Config{Type: typ, Rate: c.Rate, Interval: c.Interval}, err
}

func (l javaLimiter) TimeToLive(ctx context.Context) (int64, error) { return l.RemainTimeToLive(ctx) }

// kind is what an error says, in one word for both languages.
func kind(err error) string {
	var java *javapeer.Error
	said := ""
	if errors.As(err, &java) {
		said, _, _ = strings.Cut(java.Message, ". channel:") // behind it is the script, with all its texts
	}
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		return "not initialized"
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		return "exceeds the rate"
	case errors.Is(err, rratelimiter.ErrInvalidArgument):
		return "bad argument"
	case java == nil:
		return err.Error()
	case strings.Contains(said, "is not initialized"):
		return "not initialized"
	case strings.Contains(said, "not exceed defined rate"): // cannot, or could not
		return "exceeds the rate"
	case strings.HasSuffix(java.Type, "IllegalArgumentException"):
		return "bad argument"
	}
	return java.Error()
}

// A pair is one side that acts and the other that sees it, on one limiter.
type pair struct {
	acts, sees limiter
	actor, see side
	keys       keys
	name       string
}

func newPair(actor, see side, name string) pair {
	return pair{actor.limiter(name), see.limiter(name), actor, see, keysOf(name).by(actor, see), name}
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

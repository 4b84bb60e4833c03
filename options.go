package rratelimiter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/ahead"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/outage"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// An Option is an option of New.
type Option interface{ apply(*settings) }

type option func(*settings)

func (set option) apply(s *settings) { set(s) }

// settings are set by the options of New.
type settings struct {
	id       string
	clock    func() time.Time
	mapper   func(string) string
	redisson string        // WithRedisson
	format   int           // of records, an index of wire.Layouts; below 0 if redisson has none
	refusals time.Duration // WithRefusalCache
	goOnly   bool
	replicas *redisx.Confirmation // WithMinReplicas; nil without it
	outage   outage.Settings
	observer Observer // nil for none
}

// WithID sets the ID of the Client, the scope of its PerClient limits: Clients with one ID
// share such a limit, also in different processes. The name of the pod, for example, makes
// the limits of a process survive a restart. The first call rejects an ID that is empty or has a brace. The
// default is a random UUID, as in Redisson.
func WithID(id string) Option {
	return option(func(s *settings) { s.id = id })
}

// WithClock makes the Client take its time from now instead of from the Redis server.
// With time.Now it behaves like Redisson, which reads the clock of the JVM. If the clocks
// of clients differ, limits are wrong by the difference, until a client that uses the
// server's clock meets a record and corrects it. If they differ by more than a minute, a
// retried request may be charged twice. The default, also if now is nil, is the clock of
// the server, which all clients share.
func WithClock(now func() time.Time) Option {
	return option(func(s *settings) { s.clock = now })
}

// WithNameMapper makes the Client keep the limiter called name under mapName(name)
// (Redisson's NameMapper). The first call rejects a nil mapName, because unmapped names
// would belong to different limiters. The default keeps names as they are.
func WithNameMapper(mapName func(name string) string) Option {
	return option(func(s *settings) { s.mapper = mapName })
}

// WithRefusalCache makes the Client repeat the refusals of Redis from memory. Once Redis has said when the
// permits of a call that does not wait (Allow, TryAcquire without a timeout) will be there, calls for the
// same number are refused until then, but for at most longest, without asking Redis. The first call after
// each millisecond asks anyway, so permits that other processes give back are granted at most a millisecond
// and a round trip late. Acquires, releases, settlements and rates of this Client count at once. No permit is
// granted from memory.
//
// A flood of refused calls to a limiter then costs Redis at most 1,000 calls a second. The Client remembers
// the last refusal of up to 10,000 limiters, some 400 bytes each. RetryAfter and ResetAfter are reduced by
// the time that has passed. Group, Reserve and callers that wait ask Redis. longest is at least 1 ms. The
// default is 0: every call asks Redis.
func WithRefusalCache(longest time.Duration) Option {
	return option(func(s *settings) { s.refusals = longest })
}

// LeaseOptions bound the leases of WithLease.
type LeaseOptions struct {
	// Max is the longest time of a lease: at least 5 ms, or 0 for no leases. A lease never lasts longer than
	// a second or a twentieth of the interval.
	Max time.Duration

	// Share is the largest share of the remaining permits that a lease takes: more than 0, and at most 1.
	// The Go Clients that use the limiter divide it among themselves. 0 means 0.5.
	Share float64
}

// WithLease makes the Client take permits ahead and hand them out from memory, for limiters that it
// uses often. No interval has more than the rate: the record of a lease bears the time of its end, so
// its permits are out until an interval after that. When the lease ends, unused permits are given back,
// and used ones are redated to the last use.
//
// TryAcquire, Acquire and Allow use leases, and Release gives back to a lease first. Group, Reserve and
// Charge ask Redis. A call that Redis refuses, or that would stand in line, ends this Client's lease of that
// limiter and gets what is left of it. A lease takes at most twice the permits that the last one used. There
// is no lease if the rate is less than 100 or the interval shorter than 100 ms, while callers stand in line,
// for a second after Redis has refused a call, with WithClock, and with WithRedisson for a version before
// 3.21.0.
//
// To other clients, also in Java, the permits of a lease are taken, and AvailablePermits does not count
// them. After a SetRate, Delete or Rename, a lease hands out permits until it ends. Close gives back what
// is left. If a process is killed, the rest is lost for an interval and the time of a lease.
//
// If o is out of bounds, each call returns an ErrInvalidArgument, and so does Validate.
func WithLease(o LeaseOptions) Option {
	return option(func(s *settings) {
		s.outage.Policy.Leasing = ahead.Leasing{Longest: o.Max, Share: o.Share}
	})
}

// WithRedisson names the oldest version of Redisson that shares limiters with this Client, such
// as "3.16.4". The Client then writes records that this version can read. It always reads the
// records of all versions; Repair rewrites those of a limiter.
//
// The format of records changed in 3.16.4, 3.17.0 and 3.21.0. A version before 3.17.0 reads only
// its own records: set the option if such a version shares the limiter. Later versions do not
// need it. version is a release of three numbers, 3.13.3 or later: "3.16" is rejected, because
// its patch releases differ, and so is a pre-release. The default is the newest version.
func WithRedisson(version string) Option {
	return option(func(s *settings) { s.redisson, s.format = version, wire.Beside(version) })
}

// WithGoOnly says that no Java client uses the limiters of this Client. Every
// wait then ends the moment permits are due.
//
// Without it, Java counts as one more process that waits for permits, as far as its records
// show that it takes some. A Redisson waiter wakes up to 100 ms late, so Go waiters leave it
// the permits of its share for 110 ms, at most half an interval. If only Go takes permits, it
// uses 98 to 100 % of the limit.
func WithGoOnly() Option {
	return option(func(s *settings) { s.goOnly = true })
}

// WithMinReplicas makes each call that takes permits wait until n replicas have them, so
// that a failover does not lose them: WAIT follows the script in the same write to the
// connection. The same holds for calls that give permits back, set a rate or a time to
// live, delete or rename. If fewer than n replicas confirm within timeout, the call
// returns an ErrNotReplicated, and the permits of an acquire are given back. A call that
// changes nothing, such as a refused one, needs no replica.
//
// n is at least 1. timeout is at least 1 ms, with a fraction of a ms dropped, and less
// than the ReadTimeout of rdb, which would end the call first; a caller's own timeout and
// context hold as well. A limiter has one request under way at a time, so while replicas
// are away its calls take up to timeout each, one after another. The Redis user needs the
// command WAIT. The default is to wait for none, as in Redisson.
func WithMinReplicas(n int, timeout time.Duration) Option {
	return option(func(s *settings) {
		s.replicas = &redisx.Confirmation{Replicas: n, Within: timeout}
	})
}

// validate returns why a Client on rdb cannot be used.
func (s *settings) validate(rdb redis.UniversalClient, opts []Option) error {
	refuse := func(argument string, value any, bound string) error {
		return failure.InvalidOf("New", argument, value, bound)
	}
	none := slices.Index(opts, nil)
	_, hidden := rdb.(*redis.AutoPipeliner)
	switch {
	case redisx.IsNil(rdb):
		return refuse("rdb", "nil", "be a go-redis client")
	case hidden: // there may be a cluster behind it
		return refuse("rdb", "an AutoPipeliner", "be its client, which sends pipelines itself")
	case none >= 0:
		return refuse(fmt.Sprintf("opts[%d]", none), "nil", "be an Option")
	case s.id == "" || strings.ContainsAny(s.id, "{}"):
		return refuse("id", strconv.Quote(s.id), "be a text without braces")
	case s.mapper == nil:
		return refuse("mapName", "nil", "be a function")
	case s.format < 0:
		return refuse("version of WithRedisson", strconv.Quote(s.redisson),
			fmt.Sprintf("be a release of three numbers, %s or later", wire.Layouts[wire.FI].Since))
	case tooShort(s.refusals):
		return refuse("longest", s.refusals, "be 0 or at least 1ms")
	case s.outage.Fixed && !(s.outage.Share > 0 && s.outage.Share <= 1): // or not a number
		return refuse("share", s.outage.Share, "be more than 0 and at most 1")
	}
	if err := s.outage.Policy.Validate(refuse); err != nil {
		return err
	}
	if err := s.outage.Policy.Leasing.Validate(refuse); err != nil {
		return err
	}
	return s.validateReplicas(rdb, refuse)
}

// tooShort reports whether d is neither 0, for none, nor at least a millisecond.
func tooShort(d time.Duration) bool { return d != 0 && d < time.Millisecond }

// validateReplicas returns why WithMinReplicas cannot be used.
func (s *settings) validateReplicas(
	rdb redis.UniversalClient, refuse func(argument string, value any, bound string) error,
) error {
	if s.replicas == nil {
		return nil
	}
	// WAIT must end before go-redis takes the server for silent.
	longest := redisx.KindOf(rdb).ReadTimeout
	switch n, within := s.replicas.Replicas, s.replicas.Within; {
	case n < 1:
		return refuse("n of WithMinReplicas", n, "be at least 1")
	case within < time.Millisecond:
		return refuse("timeout of WithMinReplicas", within, "be at least 1ms")
	case s.outage.Policy.Bounded && within >= s.outage.Policy.Budget:
		return refuse("timeout of WithMinReplicas", within,
			fmt.Sprintf("be less than the budget, which is %v", s.outage.Policy.Budget))
	case longest > 0 && within >= longest:
		return refuse("timeout of WithMinReplicas", within,
			fmt.Sprintf("be less than the ReadTimeout of rdb, which is %v", longest))
	}
	return nil
}

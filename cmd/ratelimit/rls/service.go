package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/limit"
)

// Options change a Service. The zero value is useful.
type Options struct {
	// Prefix begins the names of all limiters, except for those named in a file. Empty means "rls:".
	Prefix string

	// Budget is how long a decision waits for Redis, at least 1 ms. 0 means 15 ms, which leaves time for
	// the network: Envoy waits 20 ms by default.
	Budget time.Duration

	// Lease is the longest lease of permits for exact limits that are used often
	// (rratelimiter.WithLease), at least 5 ms. 0 means none: each decision asks Redis.
	Lease time.Duration

	// Calendar, if not nil, is the time zone in which limits of a day, week, month or year that name no
	// algorithm, or fixed_window, are those of the calendar (fixedwindow.Calendar). Limits that are named or
	// all_or_none, and those of requests, are not.
	Calendar *time.Location

	// Merge joins files of the same domain, which are otherwise a mistake.
	Merge bool

	// Shadow lets all requests pass: the overall code is OK, and the statuses have the decision of each
	// limit.
	Shadow bool

	// Quota treats all limits as if they had quota_mode.
	Quota bool

	// Headers adds fields about the limit that binds to responses: those of the reference service, and
	// RateLimit-Policy, RateLimit and Retry-After of draft-ietf-httpapi-ratelimit-headers-11.
	Headers bool

	// LimitHeader, RemainingHeader and ResetHeader rename the fields of the reference service. Empty
	// means RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
	LimitHeader, RemainingHeader, ResetHeader string

	// Metadata adds dynamic metadata to responses: the request, and the metadata of the limits that passed.
	Metadata bool

	// OnHealth, if not nil, is called whenever Redis fails or is back (rratelimiter.WithHealthHook).
	OnHealth func(rratelimiter.Health)

	// OnFailure, if not nil, is called with an error that OnHealth does not report: before a fallback for
	// another algorithm, a Peek, or a charge, which is lost, and for a request that gets an error. It is
	// called at most every 10 s. The error names the limiter, and so what a visitor may have sent.
	OnFailure func(error)

	// NearRatio is the used share of a limit from which hits count as near it, above 0 and at most 1. 0 means
	// 0.8.
	NearRatio float64
}

// A Service is Envoy's RateLimitService. It is safe for concurrent use. Until Load has succeeded once, all
// requests get an error.
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	options Options
	openers openers
	meters  *meters
	lent    lent
	current atomic.Pointer[Config]
	loading sync.Mutex
	sum     string // of the files of the last Load, guarded by loading
}

// refusals bounds how long a refusal is repeated in memory, while Redis is asked once a millisecond. A flood
// of refused requests then takes a third less CPU here, and half in Redis.
const refusals = time.Minute

// New returns a Service whose limiters are in Redis. The caller keeps rdb: Close does not close it. Set
// its ContextTimeoutEnabled, so that the budget holds without another goroutine. If an option is out of
// bounds, the error is a limit.ErrInvalidArgument.
func New(rdb redis.UniversalClient, o Options) (*Service, error) {
	o.Prefix = cmp.Or(o.Prefix, "rls:")
	o.Budget = cmp.Or(o.Budget, 15*time.Millisecond)
	o.NearRatio = cmp.Or(o.NearRatio, 0.8)
	o.LimitHeader = cmp.Or(o.LimitHeader, "RateLimit-Limit")
	o.RemainingHeader = cmp.Or(o.RemainingHeader, "RateLimit-Remaining")
	o.ResetHeader = cmp.Or(o.ResetHeader, "RateLimit-Reset")
	switch {
	case o.Budget < time.Millisecond:
		return nil, fmt.Errorf("%w: Budget is %v, must be at least 1ms", limit.ErrInvalidArgument, o.Budget)
	case o.Lease != 0 && o.Lease < 5*time.Millisecond:
		return nil, fmt.Errorf("%w: Lease is %v, must be 0 or at least 5ms",
			limit.ErrInvalidArgument, o.Lease)
	case !(o.NearRatio > 0 && o.NearRatio <= 1):
		return nil, fmt.Errorf("%w: NearRatio is %v, must be above 0 and at most 1",
			limit.ErrInvalidArgument, o.NearRatio)
	}
	client := rratelimiter.New(rdb, rratelimiter.WithBudget(o.Budget),
		rratelimiter.WithFallback(rratelimiter.FallbackLocal), rratelimiter.WithHealthHook(o.OnHealth),
		rratelimiter.WithRefusalCache(refusals),
		rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: o.Lease}))
	s := &Service{options: o, meters: newMeters()}
	s.openers = openers{client: client, prefix: o.Prefix, budget: o.Budget, zone: o.Calendar}
	s.openers.failures.report = o.OnFailure
	return s, nil
}

// Close ends the limiters. Later requests get an error.
func (s *Service) Close() error { return s.openers.client.Close() }

// Health returns the state of the connection to Redis, as the decisions of the Service have found it.
func (s *Service) Health() rratelimiter.Health { return s.openers.client.Health() }

// Metrics returns the metrics, for a Prometheus handler.
func (s *Service) Metrics() prometheus.Gatherer { return s.meters.registry }

// Load replaces the configuration with that of the files. Requests under way keep the old one. On an error,
// which joins all mistakes of all files, the old configuration stays. Permits that were taken stay counted if
// the keys of a limit stay the same.
func (s *Service) Load(files []File) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.sum = sum(files)
	c, err := Parse(files, s.options.Merge)
	if err == nil {
		err = s.open(c)
	}
	if err != nil {
		s.meters.badLoads.Inc()
		return err
	}
	s.current.Store(c)
	s.meters.loads.Inc()
	return nil
}

// open makes the limiters of a configuration.
func (s *Service) open(c *Config) error {
	var all []error
	c.each(func(r *rule, _ string) {
		var err error
		if r.open, err = s.openers.open(r); err != nil {
			text := "has an unusable limiter: " + err.Error()
			all = append(all, &Mistake{File: r.domain.file, Key: r.path, Text: text})
		}
		if !r.dynamic {
			r.metrics = s.meters.of(r.domain.name, r.path)
		}
	})
	return errors.Join(all...)
}

// Config returns the configuration, nil before the first Load.
func (s *Service) Config() *Config { return s.current.Load() }

// ShouldRateLimit decides about a request. It returns an error for an invalid request, a
// missing configuration, and a failure of Redis if a limit has the fallback error.
func (s *Service) ShouldRateLimit(
	ctx context.Context, in *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	d, err := s.decide(ctx, in)
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	return s.respond(in, d), nil
}

// A badRequest is an error of a request, whose sender sees the text.
type badRequest string

// Error returns the text.
func (b badRequest) Error() string { return string(b) }

// failure converts an error to a gRPC status, and counts it. The texts of other errors than badRequest stay
// here: they name limiters, whose keys other visitors may have sent.
func (s *Service) failure(ctx context.Context, err error) error {
	kind, code, text := "service_error", codes.Internal, ""
	bad, isBad := errors.AsType[badRequest](err)
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case isBad:
		code, text = codes.InvalidArgument, bad.Error()
	case errors.Is(err, errNotLoaded) || errors.Is(err, rratelimiter.ErrClosed):
		code, text = codes.Unavailable, errNotLoaded.Error()
	case failed(err):
		kind, code = "redis_error", codes.Unavailable
	case errors.Is(err, limit.ErrInvalidArgument):
		code = codes.InvalidArgument
	}
	s.meters.errors.WithLabelValues(kind).Inc()
	if text == "" {
		text = "the rate limit could not be decided"
		s.openers.failures.add(err)
	}
	return status.Error(code, text)
}

var errNotLoaded = errors.New("rls: no configuration is loaded")

package rratelimiter

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// RateType says which clients share a limit. The numbers are what Redisson stores
// in the field "type" (the ordinals of its enum RateType).
type RateType int

const (
	// Overall is one limit for all clients of a name, Java and Go alike
	// (RateType.OVERALL).
	Overall RateType = 0

	// PerClient is a limit of its own for each client: for each Redisson
	// instance, and for each Client of this package by its ID
	// (RateType.PER_CLIENT).
	PerClient RateType = 1
)

// String returns the name Redisson uses: OVERALL or PER_CLIENT.
func (typ RateType) String() string {
	switch typ {
	case Overall:
		return "OVERALL"
	case PerClient:
		return "PER_CLIENT"
	}
	return fmt.Sprintf("RateType(%d)", int(typ))
}

func (typ RateType) valid() bool { return typ == Overall || typ == PerClient }

// Config is what is set for a limiter (RRateLimiter.getConfig).
type Config struct {
	Type      RateType
	Rate      int64         // permits per Interval
	Interval  time.Duration // whole ms
	KeepAlive time.Duration // whole ms; 0: the limiter does not expire by itself
}

// The bounds of arguments. A rate above 2^53 could not be counted exactly by
// Lua; a request above 2^40 would need more than 257 records.
const (
	maxRate    = 1 << 53
	maxPermits = 1 << 40
)

// A RateOption is an option of TrySetRate, SetRate and UpdateRate, and of Keyed and WithRate.
type RateOption interface{ applyRate(*rateOptions) }

type rateOptions struct {
	keepAlive time.Duration
	keepSet   bool // keepAlive was given
	keepState bool
	keepRate  bool
}

type rateOption func(*rateOptions)

func (set rateOption) applyRate(o *rateOptions) { set(o) }

// WithKeepAlive makes the limiter expire when it was not used for d: each
// acquire, granted or not, and each release gives all of its keys d to live
// (keepAliveTime in Redisson, 3.38.0 and later). d must not be below the interval; a
// fraction of a ms is dropped. If d is less than a second above the interval, Go
// gives the keys an interval and a second, so that nobody waits for permits of a
// limiter that has just expired; an acquire adds the resolution (WithResolution).
// A request for more than the rate changes nothing. The default is 0, the limiter
// does not expire; of a Keyed it is two intervals.
func WithKeepAlive(d time.Duration) RateOption {
	return rateOption(func(o *rateOptions) { o.keepAlive, o.keepSet = d, true })
}

// WithKeepState makes SetRate and UpdateRate count the permits that are
// taken against the new rate (RateLimiterArgs.keepState in Redisson, 4.4.0
// and later). If more are taken than the new rate, none are there until enough
// have come back. If the type changes, the limiter starts full all the same.
// The default is to start full. TrySetRate has no state to keep: it only sets a
// rate where there is none. Keyed and WithRate keep the state in any case.
func WithKeepState() RateOption {
	return rateOption(func(o *rateOptions) { o.keepState = true })
}

// WithKeepRate makes the acquires of Keyed and WithRate leave a rate alone that is set
// already, whatever it is: they set theirs only where none is set, as TrySetRate does. The
// default is to replace another rate, interval or keep alive. The option is for Keyed and
// WithRate; TrySetRate, SetRate and UpdateRate ignore it.
func WithKeepRate() RateOption {
	return rateOption(func(o *rateOptions) { o.keepRate = true })
}

// complete adds the options, drops fractions of a ms, and checks everything.
func (change *rateChange) complete(opts []RateOption) error {
	var o rateOptions
	for i, opt := range opts {
		if opt == nil {
			return invalid(fmt.Sprintf("opts[%d]", i), "nil", "be a RateOption")
		}
		opt.applyRate(&o)
	}
	switch interval := change.Interval; {
	case !change.Type.valid():
		return invalid("type", change.Type, "be Overall or PerClient")
	case change.Rate < 1 || change.Rate > maxRate:
		return invalid("rate", change.Rate, "be between 1 and 9007199254740992 (2^53)")
	case interval < time.Millisecond:
		return invalid("interval", interval, "be at least 1ms")
	case o.keepAlive != 0 && o.keepAlive < interval:
		return invalid("keepAlive", o.keepAlive, fmt.Sprintf("be 0 or at least the interval, %v", interval))
	}
	change.Interval = change.Interval.Truncate(time.Millisecond)
	change.KeepAlive, change.rateOptions = o.keepAlive.Truncate(time.Millisecond), o
	return nil
}

// A givenRate is a rate that is given in the program: the acquires of a limiter set it (Keyed,
// RateLimiter.WithRate).
type givenRate struct {
	name   string // of the Keyed that the limiter is from, empty for others
	policy string // the name, if visitors may see it (Result.Policy)
	config Config
	text   any         // for parts/limiter.lua; a string, boxed for go-redis
	other  atomic.Bool // a limiter with another rate was found
}

// newGivenRate returns the rate that acquires set, or the error of its arguments. keeps is after
// how many intervals an unused limiter expires, unless WithKeepAlive sets another time; 0 for
// never.
func newGivenRate(rate int64, interval time.Duration, keeps int64, opts []RateOption) (*givenRate, error) {
	change := rateChange{Config: Config{Overall, rate, interval, 0}}
	if err := change.complete(opts); err != nil {
		return nil, err
	}
	if !change.keepSet && keeps > 0 {
		change.KeepAlive = min(math.MaxInt64/time.Duration(keeps), change.Interval) * time.Duration(keeps)
	}
	return &givenRate{
		config: change.Config,
		text: fmt.Sprintf("%d %d %d %s", change.Rate, change.Interval.Milliseconds(),
			change.KeepAlive.Milliseconds(), flag(!change.keepRate)),
	}, nil
}

// limiter returns the RateLimiter of some keys whose acquires set the rate.
func (g *givenRate) limiter(k *limiterKeys, p policy) *RateLimiter {
	l := &RateLimiter{policy: p, givenRate: g}
	l.keys.Store(k)
	return l
}

// differs reports whether a limiter has another rate than the given one, the first time that
// it does.
func (g *givenRate) differs(v verdict) bool {
	if g == nil || v.limit == 0 || v.degraded {
		return false
	}
	same := v.limit == g.config.Rate && v.every == g.config.Interval.Milliseconds()
	return !same && g.other.CompareAndSwap(false, true)
}

// parseConfig reads the fields rate, interval, type and keepAliveTime of the hash.
func (k *limiterKeys) parseConfig(fields []any) (c Config, err error) {
	var numbers [4]int64
	for i, name := range [...]string{wire.Rate, wire.Interval, wire.Type, wire.KeepAlive} {
		text, set := fields[i].(string)
		if !set && name == wire.KeepAlive {
			break // Redisson before 3.38.0 does not write it
		} else if !set {
			return c, k.notInitialized()
		}
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return c, k.badField(name, fmt.Sprintf("%.40q", text), "be an integer")
		}
	}
	c = Config{RateType(numbers[2]), numbers[0], milliseconds(numbers[1]), milliseconds(numbers[3])}
	if !c.Type.valid() {
		value := fmt.Sprintf(`"%d"`, numbers[2])
		return Config{}, k.badField(wire.Type, value, "be 0 (OVERALL) or 1 (PER_CLIENT)")
	}
	return c, nil
}

// milliseconds is n ms, or the longest Duration where that is too much for one.
func milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(-most, min(most, n))) * time.Millisecond
}

// microseconds is n us, or the longest Duration where that is too much for one.
func microseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

// checkPermits checks the permits of an acquire (least 1) or a release (least 0).
func checkPermits(permits, least int64) error {
	if permits < least || permits > maxPermits {
		bound := fmt.Sprintf("be between %d and %d (2^40)", least, int64(maxPermits))
		return invalid("permits", permits, bound)
	}
	return nil
}

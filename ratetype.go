package rratelimiter

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// RateType says which clients share a limit. Redisson stores the number in the field
// "type" (the ordinal of its enum RateType).
type RateType int

const (
	// Overall is one limit for all clients, Java and Go alike (RateType.OVERALL).
	Overall RateType = 0

	// PerClient is a separate limit for each client: for each Redisson
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

// Config is the configuration of a limiter (RRateLimiter.getConfig).
type Config struct {
	Type      RateType
	Rate      int64         // permits per Interval
	Interval  time.Duration // whole ms
	KeepAlive time.Duration // whole ms; 0: the limiter does not expire
}

// maxRate is the highest rate: Lua cannot count exactly beyond it.
const maxRate = 1 << 53

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

// WithKeepAlive makes the limiter expire after d without use: each acquire, granted or not, and each release
// gives all of its keys d to live (keepAliveTime in Redisson, 3.38.0 and later). d is at least the interval;
// a fraction of a ms is dropped. If d is less than a second above the interval, Go gives the keys an interval
// and a second, so that no caller waits for permits of a limiter that has just expired. A request for more
// than the rate changes nothing. The default is 0: the limiter does not expire. For a Keyed it is two
// intervals.
func WithKeepAlive(d time.Duration) RateOption {
	return rateOption(func(o *rateOptions) { o.keepAlive, o.keepSet = d, true })
}

// WithKeepState makes SetRate and UpdateRate count the permits that are out against the
// new rate (RateLimiterArgs.keepState in Redisson, 4.4.0 and later). If these exceed the
// new rate, none are granted until enough have come back. If the type changes, the
// limiter still starts full. The default is to start full. Other calls return an
// ErrInvalidArgument: TrySetRate has no state to keep, because it sets a rate only if
// there is none, and Keyed and WithRate always keep the state.
func WithKeepState() RateOption {
	return rateOption(func(o *rateOptions) { o.keepState = true })
}

// WithKeepRate makes the acquires of Keyed and WithRate leave an existing rate alone,
// whatever it is: like TrySetRate, they set theirs only if none is set. The default is to
// replace a different rate, interval or keep alive. TrySetRate, SetRate and UpdateRate
// return an ErrInvalidArgument.
func WithKeepRate() RateOption {
	return rateOption(func(o *rateOptions) { o.keepRate = true })
}

// The calls that take a RateOption, as errors name them.
const (
	ofTrySetRate = "TrySetRate"
	ofSetRate    = "SetRate"
	ofUpdateRate = "UpdateRate"
	ofKeyed      = "Keyed"
	ofWithRate   = "WithRate"
)

// A rateChange is one of these calls.
type rateChange struct {
	Config
	rateOptions
	call      string
	onlyFirst bool // only if no rate is set
	mustExist bool // only if a rate is set
}

// rate returns the rate to set.
func (change *rateChange) rate() engine.Rate {
	return engine.Rate{
		Type: int(change.Type), Permits: change.Rate,
		Interval: change.Interval, KeepAlive: change.KeepAlive,
	}
}

// complete adds the options, drops fractions of a ms, and checks everything.
func (change *rateChange) complete(opts []RateOption) error {
	var o rateOptions
	for i, opt := range opts {
		if opt == nil {
			return failure.Invalid(fmt.Sprintf("opts[%d]", i), "nil", "be a RateOption")
		}
		opt.applyRate(&o)
	}
	misplaced := func(option, where string) error {
		return failure.Invalid(option, "given to "+change.call, "be given to "+where)
	}
	given := change.call == ofKeyed || change.call == ofWithRate
	switch interval := change.Interval; {
	case o.keepState && (given || change.onlyFirst):
		return misplaced("WithKeepState", ofSetRate+" or "+ofUpdateRate)
	case o.keepRate && !given:
		return misplaced("WithKeepRate", ofKeyed+" or "+ofWithRate)
	case !change.Type.valid():
		return failure.Invalid("type", change.Type, "be Overall or PerClient")
	case change.Rate < 1 || change.Rate > maxRate:
		return failure.Invalid("rate", change.Rate, "be between 1 and 9007199254740992 (2^53)")
	case interval < time.Millisecond:
		return failure.Invalid("interval", interval, "be at least 1ms")
	case o.keepAlive != 0 && o.keepAlive < interval:
		bound := fmt.Sprintf("be 0 or at least the interval, %v", interval)
		return failure.Invalid("keepAlive", o.keepAlive, bound)
	}
	change.Interval = change.Interval.Truncate(time.Millisecond)
	change.KeepAlive, change.rateOptions = o.keepAlive.Truncate(time.Millisecond), o
	return nil
}

// A givenRate is a rate that the acquires of a limiter set (Keyed, RateLimiter.WithRate).
type givenRate struct {
	name      string // of the Keyed that made the limiter, otherwise empty
	policy    string // the name, if visitors may see it (Result.Policy)
	forEngine *engine.GivenRate
	differed  atomic.Bool // a limiter with another rate was found
}

// newGivenRate returns the rate that acquires set, or the error of the arguments of call.
// An unused limiter expires after keeps intervals, unless WithKeepAlive sets
// another time; it never does if keeps is 0.
func newGivenRate(
	call string, rate int64, interval time.Duration, keeps int64, opts []RateOption,
) (*givenRate, error) {
	change := rateChange{Config: Config{Overall, rate, interval, 0}, call: call}
	if err := change.complete(opts); err != nil {
		return nil, err
	}
	if !change.keepSet && keeps > 0 {
		change.KeepAlive = min(math.MaxInt64/time.Duration(keeps), change.Interval) * time.Duration(keeps)
	}
	return &givenRate{forEngine: request.NewGivenRate(change.rate(), !change.keepRate)}, nil
}

// engine returns the rate for the engine, or nil.
func (g *givenRate) engine() *engine.GivenRate {
	if g == nil {
		return nil
	}
	return g.forEngine
}

// differs reports, once, whether a limiter has another rate than the given one.
func (g *givenRate) differs(v engine.Result) bool {
	if g == nil || v.Limit == 0 || v.Degraded {
		return false
	}
	same := v.Limit == g.forEngine.Rate.Permits && v.Every == g.forEngine.Rate.Interval.Milliseconds()
	return !same && g.differed.CompareAndSwap(false, true)
}

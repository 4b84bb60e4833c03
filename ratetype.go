package rratelimiter

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// RateType says who shares a limit. The numbers are what Redisson stores in
// the field "type" (the ordinals of its enum RateType).
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
func (t RateType) String() string {
	switch t {
	case Overall:
		return "OVERALL"
	case PerClient:
		return "PER_CLIENT"
	}
	return fmt.Sprintf("RateType(%d)", int(t))
}

func (t RateType) valid() bool { return t == Overall || t == PerClient }

// Config is what is set for a limiter (RRateLimiter.getConfig).
type Config struct {
	Type      RateType
	Rate      int64         // permits per Interval
	Interval  time.Duration // whole ms
	KeepAlive time.Duration // whole ms; 0: the limiter does not expire by itself
}

// Result is the answer of Allow and Peek: the numbers that a caller may want
// to pass on, named as in HTTP (RateLimit header fields; Retry-After).
type Result struct {
	// Allowed reports whether the permits were taken. Peek: whether one
	// permit could be taken now.
	Allowed bool

	// Limit is the rate: the permits of one interval.
	Limit int64

	// Remaining is the number of permits that are left, between 0 and Limit,
	// and never more than are really there. It is exact for Allow. Peek may tell too few when more than 1,000 grants have ended
	// that no call has counted yet, and more than 1,000 have not ended.
	Remaining int64

	// RetryAfter is the time until the permits that were refused will be
	// there if nobody else takes them; 0 if Allowed. It is never too short. If
	// somebody gives permits back, it is too long. It is exact
	// to the us unless more than 5,000 grants have to end first: then it is
	// ResetAfter.
	//
	// It is at most an interval, and with WithResolution that of the
	// resolution besides. Where other clients have clocks of their own that are
	// ahead, it may be longer by a tenth of an interval, at most a second.
	RetryAfter time.Duration

	// ResetAfter is the time until all permits are back if nobody takes any;
	// 0 if all are there. It has the bounds of RetryAfter, and is rounded up
	// to a ms.
	ResetAfter time.Duration
}

// The bounds of arguments. A rate above 2^53 could not be counted exactly by
// Lua; a request above 2^40 would need more than 257 records.
const (
	maxRate    = 1 << 53
	maxPermits = 1 << 40
)

// A RateOption is an option of TrySetRate, SetRate and UpdateRate.
type RateOption interface{ applyRate(*rateOptions) }

type rateOptions struct {
	keepAlive time.Duration
	keepState bool
}

type rateOption func(*rateOptions)

func (f rateOption) applyRate(o *rateOptions) { f(o) }

// WithKeepAlive makes the limiter expire when it was not used for d: each
// acquire, granted or not, and each release gives all of its keys d to live (keepAliveTime in
// Redisson, 3.38.0 and later). d must not be below the interval; a fraction
// of a ms is dropped. Where d is less than a second above the interval, Go
// gives them an interval and a second, and the resolution besides
// (WithResolution), so that nobody waits for permits of a limiter that has
// just expired. The default is 0: the limiter does not expire.
func WithKeepAlive(d time.Duration) RateOption {
	return rateOption(func(o *rateOptions) { o.keepAlive = d })
}

// WithKeepState makes SetRate and UpdateRate count the permits that are
// taken against the new rate (RateLimiterArgs.keepState in Redisson, 4.4.0
// and later); when the new rate is below them, none are there until enough
// have come back. When the type changes the limiter starts full all the same.
// The default is to start full. TrySetRate, which only sets a rate where none
// is, has no state to keep.
func WithKeepState() RateOption {
	return rateOption(func(o *rateOptions) { o.keepState = true })
}

// newConfig checks what is given to TrySetRate, SetRate and UpdateRate.
func newConfig(typ RateType, rate int64, interval time.Duration, opts []RateOption) (Config, rateOptions, error) {
	var o rateOptions
	for i, opt := range opts {
		if opt == nil {
			return Config{}, o, invalid(fmt.Sprintf("opts[%d]", i), "nil", "be a RateOption")
		}
		opt.applyRate(&o)
	}
	c := Config{typ, rate, interval.Truncate(time.Millisecond), o.keepAlive.Truncate(time.Millisecond)}
	switch {
	case !typ.valid():
		return c, o, invalid("type", typ, "be Overall or PerClient")
	case rate < 1 || rate > maxRate:
		return c, o, invalid("rate", rate, "be between 1 and 9007199254740992 (2^53)")
	case interval < time.Millisecond:
		return c, o, invalid("interval", interval, "be at least 1ms")
	case o.keepAlive != 0 && o.keepAlive < interval:
		return c, o, invalid("keepAlive", o.keepAlive, fmt.Sprintf("be 0 or at least the interval, %v", interval))
	}
	return c, o, nil
}

// parseConfig reads the fields rate, interval, type and keepAliveTime of the hash.
func (k *limiterKeys) parseConfig(fields []any) (c Config, err error) {
	var numbers [4]int64
	for i, name := range [...]string{"rate", "interval", "type", "keepAliveTime"} {
		text, set := fields[i].(string)
		if !set && name == "keepAliveTime" {
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
		return Config{}, k.badField("type", fmt.Sprintf(`"%d"`, numbers[2]), "be 0 (OVERALL) or 1 (PER_CLIENT)")
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
		return invalid("permits", permits, fmt.Sprintf("be between %d and %d (2^40)", least, int64(maxPermits)))
	}
	return nil
}

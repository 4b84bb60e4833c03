package form

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Rule is an algorithm with its numbers. S is the state of one limit; its zero value is the state of
// an unused limit.
type Rule[S any] struct {
	Numbers

	// Take takes n permits, if they are there, at a time in µs of a clock that may be set back.
	// An n of 0 only looks: it returns the numbers of a refusal of one permit, and a Retry of 0 if the
	// permit is there.
	// A negative n gives back up to -n permits, as far as they are out: of the grant with this stamp,
	// of any if it is 0. If stamp is Charge, Take takes n permits whatever is there, up to
	// MostPermits in all. Rules that are not for a Ledger may ignore stamp.
	Take func(state *S, now, n, stamp int64) Decision

	// Owes reports whether memory must keep a state that has been unused for Idle. Without it,
	// memory keeps none.
	Owes func(state *S, now int64) bool

	// Script is Take in Redis. KEYS[1] has the state, ARGV[1] is n, and Args follow. The reply
	// holds Remaining, Reset, Stamp and Retry of the Decision, without trailing zeros: each
	// number costs Redis time. Allowed is a Stamp above 0. A stamp follows Args unless it is 0. A
	// script that looks writes nothing.
	Script *redisx.Script
	Args   []any

	// ArgsAt, if not nil, returns the Args for a time in µs since 1970. If the time of Redis needs
	// others, the script does nothing, and replies with its time as the fifth number.
	ArgsAt func(now int64) []any
}

// Numbers are the constants of a limit.
type Numbers struct {
	Algorithm string        // the suffix of a key
	Limit     int64         // the most permits that are there
	Interval  time.Duration // the time within which they come back
	Idle      time.Duration // after which an unused state equals a new one
}

// A Decision is the result of a Rule for one call.
type Decision struct {
	Allowed      bool
	Remaining    int64 // below 0: a debt
	Retry, Reset int64 // as in a limit.Result, in µs

	// Stamp identifies the grant to the script that gives back this grant and no other: the
	// time in µs of the grant, of the beginning of its window, or at which it comes back with
	// time. In memory it is always the last of these.
	Stamp int64

	By By // what has decided; zero where there is no choice
}

// A By is what has decided about a call of a Client.
type By uint8

// The deciders.
const (
	Redis    By = iota
	Memory      // of this process, because Redis has failed
	Fallback    // to allow or deny: no permits are taken
)

// looked sets Allowed of a call that only looks.
func (d *Decision) looked(n int64) {
	if n == 0 {
		d.Allowed = d.Retry == 0
	}
}

// Charge takes the place of a Stamp where permits are taken whatever is left.
const Charge = 1

// fill writes the numbers of a Decision into the Result of the caller: a Result is large, and a copy of
// it takes as long as the decision.
func (n *Numbers) fill(r *limit.Result, d *Decision) {
	r.Allowed, r.Limit, r.Interval = d.Allowed, n.Limit, n.Interval
	r.Remaining = min(max(0, d.Remaining), n.Limit)
	r.Debt = max(0, -d.Remaining)
	r.RetryAfter, r.ResetAfter = Micros(d.Retry), Micros(d.Reset)
}

// Micros converts microseconds to a Duration, at most the longest one of 292 years.
func Micros(us int64) time.Duration {
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// Check returns an error for an ended ctx or an invalid number of permits. A charge may be above Limit.
func (n *Numbers) Check(ctx context.Context, permits int64, charge bool) error {
	switch {
	case ctx.Err() != nil:
		return unsent{fmt.Errorf("rratelimiter: %w", ctx.Err())}
	case permits < 1:
		return fmt.Errorf("%w: n is %d, must be at least 1", limit.ErrInvalidArgument, permits)
	case charge && permits > MostPermits:
		return fmt.Errorf("%w: n is %d, must be at most 2^40", limit.ErrInvalidArgument, permits)
	case !charge && permits > n.Limit:
		return fmt.Errorf("%w: n is %d, must be at most %d", limit.ErrPermitsExceedRate, permits, n.Limit)
	}
	return nil
}

// The bounds of the numbers of an algorithm. Below them, Lua counts exactly.
const (
	MostPermits = 1 << 40
	MostTime    = 10 * 366 * 24 * time.Hour
	mostName    = 1024 // bytes
)

// Permits returns an error that names the field unless n is 1 to 2^40.
func Permits(field string, n int64) error {
	if n < 1 || n > MostPermits {
		return fmt.Errorf("%w: %s is %d, must be 1 to 2^40", limit.ErrInvalidArgument, field, n)
	}
	return nil
}

// Span returns an error that names the field unless d is 1 ms to 10 years of 366 days.
func Span(field string, d time.Duration) error {
	if d < time.Millisecond || d > MostTime {
		return fmt.Errorf("%w: %s is %v, must be 1ms to %v", limit.ErrInvalidArgument, field, d, MostTime)
	}
	return nil
}

// Counted returns the Numbers of an algorithm that counts most permits in a span, from fields with those
// names: 1 to 2^40, and 1 ms to 3,660 days, of which it drops the part of a millisecond.
func Counted(algorithm, countField string, most int64, spanField string,
	span time.Duration) (Numbers, error) {
	if err := cmp.Or(Permits(countField, most), Span(spanField, span)); err != nil {
		return Numbers{}, err
	}
	span = span.Truncate(time.Millisecond)
	return Numbers{algorithm, most, span, span}, nil
}

// Filled returns the Numbers of a bucket that fills, or leaks out, at a rate. The caller has checked the
// rate.
func Filled(algorithm string, capacity int64, rate float64, interval time.Duration) (Numbers, error) {
	if err := cmp.Or(Permits("Capacity", capacity), Span("Interval", interval)); err != nil {
		return Numbers{}, err
	}
	us := math.Ceil(float64(capacity) * float64(interval.Microseconds()) / rate)
	if us > float64(MostTime.Microseconds()) {
		return Numbers{}, fmt.Errorf("%w: Capacity is %d, fills in %.3g s, must fill in at most %v",
			limit.ErrInvalidArgument, capacity, us/1e6, MostTime)
	}
	full := time.Duration(max(1, us)) * time.Microsecond
	return Numbers{algorithm, capacity, full, full + time.Millisecond}, nil
}

// Usable returns an error unless a name or a key has 1 to 1,024 bytes.
func Usable(what, text string) error {
	if text == "" || len(text) > mostName {
		return fmt.Errorf("%w: %s has %d bytes, must have 1 to %d", limit.ErrInvalidArgument, what, len(text),
			mostName)
	}
	return nil
}

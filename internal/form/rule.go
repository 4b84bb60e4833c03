package form

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Rule is an algorithm with its numbers. S is what it keeps of one limit; the zero
// value is that of a limit that nobody has used.
type Rule[S any] struct {
	Numbers

	// Take takes n permits at a time, in µs of a clock that may be set back, if they are
	// there. A negative n gives back so many, as far as they are out.
	Take func(state *S, now, n int64) Answer

	// Owes reports whether a state in memory must be kept at a time, however long nobody
	// has used it. Without it, Rest is for all states.
	Owes func(state *S, now int64) bool

	// Script is Take in Redis. KEYS[1] has the state, ARGV[1] is n, and Args follow. Its
	// reply is Remaining, Reset, Place and Retry of the Answer, as far as they are not 0 at
	// the end: each number costs Redis time. Allowed is a Place above 0. Where what was
	// granted is given back, its Place follows Args.
	Script *redisx.Script
	Args   []any
}

// Numbers are those of a limit that do not change.
type Numbers struct {
	Algorithm string        // its word in the name of a key
	Limit     int64         // the permits that are there at most
	Interval  time.Duration // in which they come back
	Rest      time.Duration // the state of a limit that nobody used for so long is as good as a new one
}

// An Answer is what a Rule has come to.
type Answer struct {
	Allowed      bool
	Remaining    int64
	Retry, Reset int64 // as in a limit.Result, in µs

	// Place is what the script wants to know to give back what it has granted and nothing
	// else: the time in µs at which that was, at which its window began, or at which it is
	// back by itself. In memory it is always the latter.
	Place int64
}

// fill writes the numbers of an Answer where the caller of Allow gets them: a Result is
// large, and to copy it takes as long as to decide.
func (n *Numbers) fill(r *limit.Result, a *Answer) {
	r.Allowed, r.Limit, r.Interval = a.Allowed, n.Limit, n.Interval
	r.Remaining = min(max(0, a.Remaining), n.Limit)
	r.RetryAfter, r.ResetAfter = Micros(a.Retry), Micros(a.Reset)
}

// Micros returns so many µs, or the longest Duration: 292 years.
func Micros(us int64) time.Duration {
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// Check returns the error of a call that cannot be right or has ended.
func (n *Numbers) Check(ctx context.Context, permits int64) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("rratelimiter: %w", ctx.Err())
	case permits < 1:
		return fmt.Errorf("%w: n is %d, must be at least 1", limit.ErrInvalidArgument, permits)
	case permits > n.Limit:
		return fmt.Errorf("%w: n is %d, must be at most %d", limit.ErrPermitsExceedRate, permits, n.Limit)
	}
	return nil
}

// The bounds of what an algorithm is set to. Numbers below them are exact in Lua.
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

// Usable returns an error unless a name or a key is one.
func Usable(what, text string) error {
	if text == "" || len(text) > mostName {
		return fmt.Errorf("%w: %s has %d bytes, must have 1 to %d", limit.ErrInvalidArgument, what, len(text),
			mostName)
	}
	return nil
}

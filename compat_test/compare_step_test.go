package compat_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// An operation is what one step of a comparison does with a limiter.
type operation string

const (
	trySetRate       operation = "trySetRate"
	setRate          operation = "setRate"
	updateRate       operation = "updateRate"
	tryAcquire       operation = "tryAcquire"
	availablePermits operation = "availablePermits"
	release          operation = "release"
	getConfig        operation = "getConfig"
	isExists         operation = "isExists"
	deletes          operation = "delete"
	expire           operation = "expire"
	clearExpire      operation = "clearExpire"
	remainTimeToLive operation = "remainTimeToLive"
	lose             operation = "lose" // something goes without either side doing it: an eviction, an older client
)

// A step is one operation with its arguments; those it does not need are zero.
type step struct {
	op        operation
	limit     rratelimiter.Config
	keepState bool
	permits   int64
	ttl       time.Duration
	part      string        // what is lost: hash, value, permits, interval or keepAliveTime
	pause     time.Duration // before it
	patience  int           // where Java goes wrong with it: for how many steps it goes on with what it has made
	java      bool          // on one name: it is Java's turn, not Go's
}

// setsRate reports whether it is one of the three that set a rate.
func (s step) setsRate() bool { return s.op == trySetRate || s.op == setRate || s.op == updateRate }

func (s step) String() string {
	var words []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch s.op {
	case trySetRate, setRate, updateRate:
		say("%v", s.limit.Type)
		say("%d", s.limit.Rate)
		say("%v", s.limit.Interval)
		if s.limit.KeepAlive != 0 {
			say("keepAlive %v", s.limit.KeepAlive)
		}
		if s.keepState {
			say("keepState")
		}
	case tryAcquire, release:
		say("%d", s.permits)
	case expire:
		say("%v", s.ttl)
	case lose:
		say("%s", s.part)
	}
	text := fmt.Sprintf("%s(%s)", s.op, strings.Join(words, ", "))
	if s.java {
		text = "Java: " + text
	}
	if s.pause > 0 {
		text = fmt.Sprintf("after %v %s", s.pause, text)
	}
	return text
}

// An answer is what a step is answered with, in one form for both languages:
// a result, or in one word the kind of error.
type answer struct{ result, err string }

func (a answer) String() string {
	if a.err != "" {
		return "error: " + a.err
	}
	return a.result
}

// The errors, beside those that both sides have (kind), that only Java knows.
const (
	notInitialized = "not initialized"
	exceedsRate    = "exceeds the rate"
	badArgument    = "bad argument"
	nilValue       = "arithmetic on a nil value" // B2
	unreadable     = "Unexpected exception"      // getConfig of half a hash (B15): it fails to read a number
)

// answered makes an answer of what a method returns.
func answered(result any, err error) answer {
	if err == nil {
		return answer{result: fmt.Sprint(result)}
	}
	for _, known := range []string{nilValue, unreadable} {
		if strings.Contains(err.Error(), known) {
			return answer{err: known}
		}
	}
	return answer{err: kind(err)}
}

// ask does the step on a limiter. What gets lost is not asked for (arena.loses).
func (s step) ask(ctx context.Context, l limiter) answer {
	switch s.op {
	case trySetRate:
		return answered(l.TrySetRate(ctx, s.limit))
	case setRate:
		return answered("", l.SetRate(ctx, s.limit, s.keepState))
	case updateRate:
		return answered(l.UpdateRate(ctx, s.limit, s.keepState))
	case tryAcquire:
		return answered(l.TryAcquire(ctx, s.permits, 0))
	case availablePermits:
		return answered(l.AvailablePermits(ctx))
	case release:
		return answered("", l.Release(ctx, s.permits))
	case getConfig:
		c, err := l.Config(ctx)
		return answered(describe(c), err)
	case isExists:
		return answered(l.Exists(ctx))
	case deletes:
		return answered(l.Delete(ctx))
	case expire:
		return answered(l.Expire(ctx, s.ttl))
	case clearExpire:
		return answered(l.ClearExpire(ctx))
	case remainTimeToLive:
		ms, err := l.TimeToLive(ctx)
		return answered(coarse(ms), err)
	}
	panic("no such operation: " + s.op)
}

func describe(c rratelimiter.Config) string {
	return fmt.Sprintf("%v %d %v", c.Type, c.Rate, c.Interval)
}

// coarse is a time to live, without the time: the world has that (ends).
func coarse(ms int64) string {
	switch ms {
	case -1:
		return "lives for ever"
	case -2:
		return "is not there"
	}
	return "ends"
}

package faults

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A Fault is something that breaks, and heals.
type Fault struct {
	Name  string
	Setup Setup

	// Break breaks something and heals it. It notes writes that Redis may forget in the log of the round.
	Break func(r *Round)

	// Errors are the kinds of errors that callers may get besides ErrNoAnswer and the
	// end of their context. Replies of Redis are named by their code.
	Errors []string
}

// The kinds of errors that need no reply of Redis. Of a reply, the kind is its code,
// the first word.
const (
	noAnswer       = "ErrNoAnswer"
	notInitialized = "ErrNotInitialized"
	contextEnded   = "the end of the context"
	unnamed        = "an error that does not name the limiter"
	undocumented   = "an error of no documented kind"
)

// code matches the beginning of an error of Redis.
var code = regexp.MustCompile(`^[A-Z]+\b`)

// kindOf returns the kind of an error by its name in the documentation.
func kindOf(err error, limiter string) string {
	var reply redis.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return contextEnded
	case !strings.Contains(err.Error(), strconv.Quote(limiter)):
		return unnamed
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		return notInitialized
	case errors.Is(err, rratelimiter.ErrNoAnswer):
		return noAnswer
	case errors.As(err, &reply) && code.MatchString(reply.Error()):
		return code.FindString(reply.Error())
	}
	return undocumented
}

// mayBe reports whether callers may get an error of that kind during a fault. A
// request may always stay without an answer, and contexts end.
func (f Fault) mayBe(kind string) bool {
	return kind == noAnswer || kind == contextEnded || slices.Contains(f.Errors, kind)
}

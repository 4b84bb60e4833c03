package otellimit

import (
	"context"
	"errors"

	"github.com/redisson-go/rratelimiter"
)

// A result is the value of the attribute of that name: what a call came to. There are no
// others, whatever an error says.
type result int

const (
	granted result = iota
	refused
	noAnswer
	canceled
	timeout
	notInitialized
	permitsExceedRate
	invalidArgument
	badState
	notReplicated
	closed
	otherError
	results // how many there are
)

func (r result) String() string {
	return [results]string{
		granted: "granted", refused: "refused", noAnswer: "no_answer", canceled: "canceled",
		timeout: "timeout", notInitialized: "not_initialized",
		permitsExceedRate: "permits_exceed_rate", invalidArgument: "invalid_argument",
		badState: "bad_state", notReplicated: "not_replicated", closed: "closed",
		otherError: "error",
	}[r]
}

// resultOf returns the result of an observation. A call that ended because Redis was
// silent has no answer, even if its context ended it: that is the cause to look for.
func resultOf(o *rratelimiter.Observation) result {
	switch {
	case o.Err == nil && o.Result.Allowed:
		return granted
	case o.Err == nil:
		return refused
	}
	for _, known := range []struct {
		err    error
		result result
	}{
		{rratelimiter.ErrNoAnswer, noAnswer},
		{context.Canceled, canceled},
		{context.DeadlineExceeded, timeout},
		{rratelimiter.ErrNotInitialized, notInitialized},
		{rratelimiter.ErrPermitsExceedRate, permitsExceedRate},
		{rratelimiter.ErrInvalidArgument, invalidArgument},
		{rratelimiter.ErrBadState, badState},
		{rratelimiter.ErrNotReplicated, notReplicated},
		{rratelimiter.ErrClosed, closed},
	} {
		if errors.Is(o.Err, known.err) {
			return known.result
		}
	}
	return otherError
}

package otellimit

import (
	"context"
	"errors"

	"github.com/redisson-go/rratelimiter"
)

// A result is the value of the attribute of that name. There are no other values, whatever the error.
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
	results // the number of results
)

// named are the names of the results and their errors. The first match of an error counts.
var named = [results]struct {
	name string
	err  error
}{
	granted:           {name: "granted"},
	refused:           {name: "refused"},
	noAnswer:          {"no_answer", rratelimiter.ErrNoAnswer},
	canceled:          {"canceled", context.Canceled},
	timeout:           {"timeout", context.DeadlineExceeded},
	notInitialized:    {"not_initialized", rratelimiter.ErrNotInitialized},
	permitsExceedRate: {"permits_exceed_rate", rratelimiter.ErrPermitsExceedRate},
	invalidArgument:   {"invalid_argument", rratelimiter.ErrInvalidArgument},
	badState:          {"bad_state", rratelimiter.ErrBadState},
	notReplicated:     {"not_replicated", rratelimiter.ErrNotReplicated},
	closed:            {"closed", rratelimiter.ErrClosed},
	otherError:        {name: "error"},
}

func (r result) String() string { return named[r].name }

// resultOf returns the result of an observation. If Redis did not reply, the result is noAnswer even
// if a context ended the call, because that is the cause.
func resultOf(o *rratelimiter.Observation) result {
	switch {
	case o.Err == nil && o.Result.Allowed:
		return granted
	case o.Err == nil:
		return refused
	}
	for r := noAnswer; r < otherError; r++ {
		if errors.Is(o.Err, named[r].err) {
			return r
		}
	}
	return otherError
}

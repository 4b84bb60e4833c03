package failure

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// An error gets the name of the limiter once, also where it is within another one, and is still
// known by all that it wraps.
func TestAnErrorIsNamedOnce(t *testing.T) {
	replicas := &Error{Kind: ErrNotReplicated, Cause: io.EOF}
	for _, test := range []struct {
		err  error
		text string
		is   []error
	}{
		{io.EOF, `rratelimiter: no answer from Redis for "l": EOF`, []error{limit.ErrNoAnswer, io.EOF}},
		{redisx.ErrShape, `rratelimiter: "l": a script answered`, []error{redisx.ErrShape}},
		{ErrClosed, ErrClosed.Error(), []error{ErrClosed}},
		{context.Canceled, context.Canceled.Error(), []error{context.Canceled}},
		{NotInitialized(io.EOF),
			`rratelimiter: no rate is set for "l": set one by WithRate, TrySetRate or rrl set`,
			[]error{ErrNotInitialized, io.EOF}},
		{Of("other", Exceeds(3, 2)),
			`rratelimiter: permits exceed the rate of "other": permits is 3, must be at most 2`,
			[]error{limit.ErrPermitsExceedRate}},
		{InvalidOf("New", "rdb", "nil", "be a client"),
			`rratelimiter: invalid argument of New: rdb is nil, must be a client`,
			[]error{limit.ErrInvalidArgument}},
		{NotAsked(Outage(Of("other", Silent(1, io.EOF)))),
			`rratelimiter: no answer from Redis for "l": Redis is not asked, for it has failed: EOF`,
			[]error{limit.ErrNoAnswer, io.EOF}},
		{NotAsked(Outage(Of("other", Silent(1, nil)))),
			`rratelimiter: no answer from Redis for "l": Redis is not asked, for it has failed: ` +
				`no answer from Redis within 1ns`,
			[]error{limit.ErrNoAnswer}},
		{NotAsked(Outage(Of("other", &endError{context.DeadlineExceeded, io.EOF}))),
			`rratelimiter: no answer from Redis for "l": Redis is not asked, for it has failed: EOF`,
			[]error{limit.ErrNoAnswer, io.EOF, context.DeadlineExceeded}},
		{Unanswered(context.Canceled, replicas),
			`rratelimiter: no answer from Redis for "l": context canceled: ` +
				`rratelimiter: too few replicas for "l": EOF`,
			[]error{limit.ErrNoAnswer, context.Canceled, ErrNotReplicated, io.EOF}},
	} {
		named := Of("l", test.err)
		if named.Error() != test.text || Of("other", named) != named {
			t.Errorf("%v, then %v; want %s", named, Of("other", named), test.text)
		}
		for _, is := range test.is {
			if !errors.Is(named, is) {
				t.Errorf("%v is not known as %v", named, is)
			}
		}
	}
	if replicas.name != "" {
		t.Error("an error that many callers may get was changed")
	}
}

// An error of the configuration is known as such, once, and keeps its text.
func TestMisconfigured(t *testing.T) {
	err := Invalid("rate", 0, "be more")
	config := Misconfigured(err)
	if config.Error() != err.Error() || !errors.Is(config, limit.ErrMisconfigured) ||
		!errors.Is(config, limit.ErrInvalidArgument) || errors.Is(err, limit.ErrMisconfigured) {
		t.Errorf("%v, %v", config, err)
	}
	if Misconfigured(config) != config || Misconfigured(nil) != nil {
		t.Error("it is changed again")
	}
}

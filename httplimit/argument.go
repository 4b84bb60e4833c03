package httplimit

import (
	"fmt"

	"github.com/redisson-go/rratelimiter/limit"
)

// invalid returns the error for an argument out of its bounds.
func invalid(where, argument string, value any, bound string) error {
	return fmt.Errorf("%w of httplimit.%s: %s is %v, must %s",
		limit.ErrInvalidArgument, where, argument, value, bound)
}

// nilArgument returns the error for an argument that is nil.
func nilArgument(where, argument string) error { return invalid(where, argument, nil, "not be nil") }

// option returns an option that calls set if ok is true, and otherwise returns wrong.
func option[T any](ok bool, wrong error, set func(*T)) func(*T) error {
	return func(target *T) error {
		if !ok {
			return wrong
		}
		set(target)
		return nil
	}
}

// apply applies the options of the constructor called where.
func apply[T any, O ~func(*T) error](where string, target *T, opts []O) error {
	for i, opt := range opts {
		if opt == nil {
			return nilArgument(where, fmt.Sprintf("option %d", i+1))
		}
		if err := opt(target); err != nil {
			return err
		}
	}
	return nil
}

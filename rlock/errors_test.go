package rlock

import (
	"context"
	"testing"
)

// A wait may end between two looks at its context. Its caller then gets no error of that context.
func TestWaitThatEndsBetweenTwoLooks(t *testing.T) {
	waited, cancel := context.WithTimeoutCause(t.Context(), 0, errTimeUp)
	defer cancel()
	if err := ended(&endsAfterALook{Context: waited}); err != nil && err != errTimeUp {
		t.Errorf("ended returned %v, want nil or %v", err, errTimeUp)
	}
}

// endsAfterALook is a context that has not ended at the first look.
type endsAfterALook struct {
	context.Context
	looked bool
}

func (c *endsAfterALook) Err() error {
	if !c.looked {
		c.looked = true
		return nil
	}
	return c.Context.Err()
}

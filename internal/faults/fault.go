package faults

import "context"

// A Fault is something that breaks, and heals.
type Fault struct {
	Name  string
	Setup Setup

	// Break breaks something and heals it. It notes writes that Redis may forget
	// in the log of the round.
	Break func(ctx context.Context, r *Round) error

	// Errors are the kinds of errors that callers may get besides ErrNoAnswer and the
	// end of their context. Replies of Redis are named by their code.
	Errors []string

	// Unlimited says why the limit does not hold while it lasts; empty: it does.
	Unlimited string
}

func (f Fault) String() string { return f.Name }

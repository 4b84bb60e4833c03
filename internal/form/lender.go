package form

import (
	"context"

	"github.com/redisson-go/rratelimiter/limit"
)

// A Lender is a limiter whose grants can be returned exactly: Return gives back what is still out
// of one grant, and nothing that has come back with time, which other callers may have by now. All
// forms are Lenders. A limiter of one limit ignores the key.
type Lender interface {
	// Lend is Allow, and returns the Decision for Return.
	Lend(ctx context.Context, key string, n int64) (limit.Result, Decision, error)

	// Return gives back what a Lend granted. Errors are those of Release.
	Return(ctx context.Context, key string, n int64, d Decision) error
}

// A Form is all that a form can do, whether its limiter has keys or ignores them.
type Form interface {
	Lender

	// Look is Peek, GiveBack is Release, and Debit is Charge. Only the Rule of a Ledger has charges.
	Look(ctx context.Context, key string) (limit.Result, error)
	GiveBack(ctx context.Context, key string, n int64) error
	Debit(ctx context.Context, key string, n int64) (limit.Result, error)
}

// A Lone is a limiter of one limit.
type Lone interface {
	limit.Releaser
	limit.Peeker
	Form
}

// A Keyed is a limiter with a limit for each key.
type Keyed interface {
	limit.KeyedReleaser
	limit.KeyedPeeker
	Form
}

// An Opened is a limiter in memory, for an algorithm that does more than Take.
type Opened[S any] interface {
	// Do calls f with the state of a key and the time in µs, and excludes other callers
	// meanwhile. A limiter of one limit ignores the key. If the key is unusable or ctx has
	// ended, Do returns an error and does not call f.
	Do(ctx context.Context, key string, f func(state *S, now int64)) error
}

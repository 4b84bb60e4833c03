// Package concurrency limits how many permits are out at once, not how many are taken per interval: the
// requests being served, the connections to a partner. Callers give their permits back when they are done.
//
// A crashed caller cannot give its permits back, so permits are taken for a lease, and come back when the
// lease ends. A lease should be longer than the work, or be extended meanwhile. A lease is not a lock: a
// process suspended past the end of its lease does not notice, and continues while other callers have its
// permits.
//
//	leases, err := concurrency.Limit{Most: 20, Lease: time.Minute}.OnRedis(rdb, "reports")
//	...
//	lease, err := leases.Acquire(ctx, 1)
//	if err != nil {
//		return err
//	}
//	defer lease.Release(context.WithoutCancel(ctx))
//
// Behind the interfaces of package limit, callers have no Lease. Release gives back the oldest permits that
// the same limiter has taken, whichever caller holds them, or if there are none, those of other processes.
// So a caller that releases expired permits gives back another caller's. Without any Release the limiter is
// a sliding log: at most Most permits are granted in any span of one Lease.
package concurrency

import (
	"embed"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A Limit bounds how many permits are out at once. Each Lease, and each granted call of Allow, has one or
// more permits. At most 2,000 of these grants are out at once, even if Most is more: beyond that every call
// is refused. This bounds how long a script takes. For more, use several names, or take many permits with one
// lease.
type Limit struct {
	Most  int64         // 1 to 2^40
	Lease time.Duration // 1 ms to 3,660 days; a part of a millisecond is dropped
}

// files are the scripts. take.lua is not sent again: a first copy that arrives after the lease was
// released would take it once more.
//
//go:embed *.lua parts/*.lua
var files embed.FS

var (
	scriptTake = redisx.Load(files, "take.lua", false)
	scriptKeep = redisx.Load(files, "keep.lua", true)
)

func (l Limit) rule() (form.Rule[state], error) {
	numbers, err := l.numbers()
	b := boundOf(numbers)
	return form.Rule[state]{
		Numbers: numbers,
		Take: func(s *state, now, n, stamp int64) form.Decision {
			_, d := b.take(s, now, n, stamp, false)
			return d
		},
		Script: scriptTake,
		Args:   []any{b.most, b.lease, newSerial('@')},
	}, err
}

// numbers returns the numbers of the limit, or an error if a field is out of its bounds.
func (l Limit) numbers() (form.Numbers, error) {
	return form.Counted("concurrency", "Most", l.Most, "Lease", l.Lease)
}

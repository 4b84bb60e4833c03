package rratelimiter

import (
	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// Result holds the numbers that Allow, Peek, TryReserve and Charge return, the same for all limiters
// of this module. limit.Result describes its fields. For a RateLimiter:
//
// Name is the limiter's name as given. Limit and Interval are the rate and the interval
// in Redis.
//
// Remaining is exact for Allow. Peek may return too few when more than 1,000 grants have
// ended that no call has counted yet, and more than 1,000 have not ended.
//
// RetryAfter is exact to the microsecond unless more than 5,000 grants have to end first: then it
// is ResetAfter. It is at most an interval. If the clock of another client is ahead, it may be
// longer by a tenth of an interval, at most a second.
// ResetAfter has the same bounds, and is rounded up to a ms.
//
// Debt is the number of permits charged beyond what was left. A Charge is never refused, so its RetryAfter
// is 0 even in debt; after a Peek it says when a permit will be there.
//
// Degraded reports that Redis did not decide: it has failed, and the Fallback decided; or
// it is just back, and the share of this Client is used up; or limiting is off. Then
// Limit is 0 if the Client does not know the rate, and Remaining is what this Client may
// still take of its share, 0 without a share.
type Result = limit.Result

// resultOf returns the numbers for the callers of the limiter called name.
func resultOf(v engine.Result, name string, given *givenRate) Result {
	r := Result{
		Allowed: v.OK, Name: name, Limit: v.Limit, Interval: wire.Milliseconds(max(0, v.Every)),
		Remaining:  min(max(0, v.Left), max(0, v.Limit)),
		Debt:       max(0, -v.Left),
		RetryAfter: v.RetryAfter(), ResetAfter: v.ResetAfter(), Degraded: v.Degraded,
	}
	if given != nil {
		r.Policy = given.policy
	}
	return r
}

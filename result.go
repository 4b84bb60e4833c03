package rratelimiter

import (
	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/wire"
	"github.com/redisson-go/rratelimiter/limit"
)

// Result is what Allow, Peek, TryReserve and Charge return: the numbers that a caller may want to pass
// on, the same for all limiters of this module. limit.Result describes its fields. Of a RateLimiter:
//
// Name is that of the limiter, as it was given. Limit is the rate, Interval that of the
// limit in Redis.
//
// Remaining is exact for Allow. Peek may return too few when more than 1,000 grants have
// ended that no call has counted yet, and more than 1,000 have not ended.
//
// RetryAfter is exact to the microsecond unless more than 5,000 grants have to end first: then it
// is ResetAfter. It is at most an interval, and with WithResolution the
// resolution in addition. If another client has a clock of its own that is ahead, it may
// be longer by a tenth of an interval, at most a second. ResetAfter has the same bounds,
// and is rounded up to a ms.
//
// Debt is by how much charges exceed what was left. A Charge is never refused, so its RetryAfter is 0 also
// in debt; that of a Peek says when a permit is there again.
//
// Degraded reports that Redis did not decide. It has failed, and the Fallback did; or it
// is just back, and the share of this Client is taken; or limiting is off. Then Limit is
// 0 if the Client has not learnt the rate, and Remaining is what this Client may take by
// itself, 0 if it may take anything or nothing.
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

package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A grant is permits that a caller got at some time between sent and seen. Only
// Redis knows the time exactly, but grants are there to check Redis.
type grant struct {
	sent    time.Time // when the request that was granted left
	seen    time.Time // when the caller had the reply
	permits int64     // below 0 if they are given back
}

// grants are in the order in which they were seen.
type grants []grant

// add adds a grant. Permits that are given back are taken from the newest grants,
// as [rratelimiter.RateLimiter.Release] does: they were not used.
func (g *grants) add(n grant) {
	if n.permits > 0 {
		*g = append(*g, n)
		return
	}
	for i := len(*g) - 1; i >= 0 && n.permits < 0; i-- {
		back := min(-n.permits, (*g)[i].permits)
		(*g)[i].permits -= back
		n.permits += back
	}
}

// rounding is how much shorter the time between two grants may be here than it is
// in Redis. Redis counts in whole ms, which makes up to 1 ms at either end.
const rounding = 2 * time.Millisecond

// most returns the most permits that were granted in any window of a length. A
// window begins with a grant. It holds the grants that were sent after its
// beginning and seen before its end. A grant that may have been outside isn't
// counted: otherwise a slow reply would look like a permit too many.
func (g grants) most(length time.Duration) int64 {
	var most int64
	for _, first := range g {
		var sum int64
		for _, n := range g {
			if !n.sent.Before(first.sent) && n.seen.Before(first.sent.Add(length-rounding)) {
				sum += n.permits
			}
		}
		most = max(most, sum)
	}
	return most
}

// A stamp is the time at which a call sent its last request. It is carried by the
// context of the call. A call that waits may send several requests, and only the
// last is granted.
type stamp struct{ at atomic.Pointer[time.Time] }

type stampKey struct{}

// withStamp returns a context whose requests set the stamp.
func withStamp(ctx context.Context) (context.Context, *stamp) {
	s := new(stamp)
	s.set()
	return context.WithValue(ctx, stampKey{}, s), s
}

func (s *stamp) set()            { s.at.Store(new(time.Now())) }
func (s *stamp) time() time.Time { return *s.at.Load() }

// stamping is the hook of go-redis that sets the stamps.
type stamping struct{}

// DialHook does nothing.
func (stamping) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sets the stamp of a request.
func (stamping) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s, ok := ctx.Value(stampKey{}).(*stamp); ok {
			s.set()
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook does nothing: no call that is stamped is a pipeline.
func (stamping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

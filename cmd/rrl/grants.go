package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A grant is permits that a caller got at some time between sent, when the
// request left that was granted, and seen, when the caller had the answer. Only
// Redis knows it better, and that is whose word is to be checked.
type grant struct {
	sent, seen time.Time
	permits    int64
}

// grants are in the order in which they were seen.
type grants []grant

// add adds a grant. Permits given back come out of the newest ones, as with
// [rratelimiter.RateLimiter.Release]: nobody has used them.
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

// rounding is what the time between two grants can be shorter than it is in
// Redis, which sees whole milliseconds of a clock that is not ours.
const rounding = 2 * time.Millisecond

// most returns the most permits that were granted in any window of a length. A
// window begins with a grant; in it are those that were sent after its
// beginning and seen before its end. What may have been outside isn't counted,
// or a slow reply would look like a permit too many.
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

// A stamp, put into the context of a call, is the time at which its last
// request was sent: a call that waits sends several, and only the last is
// granted.
type stamp struct{ at atomic.Pointer[time.Time] }

type stampKey struct{}

func withStamp(ctx context.Context) (context.Context, *stamp) {
	s := new(stamp)
	s.set()
	return context.WithValue(ctx, stampKey{}, s), s
}

func (s *stamp) set()            { s.at.Store(new(time.Now())) }
func (s *stamp) time() time.Time { return *s.at.Load() }

// stamping is the hook of go-redis that sets the stamps.
type stamping struct{}

func (stamping) DialHook(next redis.DialHook) redis.DialHook { return next }

func (stamping) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s, ok := ctx.Value(stampKey{}).(*stamp); ok {
			s.set()
		}
		return next(ctx, cmd)
	}
}

func (stamping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

package ahead

import (
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

// askAgainAfter is the greatest age of a repeated refusal: then the next caller asks Redis, once.
const askAgainAfter = time.Millisecond

// A refusal is the last one of a limiter by Redis, to be repeated for a while.
type refusal struct {
	permits int64
	given   string        // the given rate of the call
	result  engine.Result // at the time told
	told    time.Duration // when the reply arrived
	until   time.Duration // the permits may be there from then on
	askAt   atomic.Int64  // ns; the first caller from then on asks Redis
}

// newRefusal returns the refusal of a call. Batch, Drift, Queued and Replaced are of that call alone.
func newRefusal(l *engine.Limiter, permits int64, v engine.Result) *refusal {
	v.Batch, v.Drift, v.Queued, v.Replaced = 0, 0, 0, false
	return &refusal{permits: permits, given: l.Given.Text(), result: v}
}

// note remembers the refusal of a call that began at asked, if it has a wait, and nothing was written since
// then. The permits come back that long after Redis judged, which was between the call and the reply: they
// may be there from the earlier time on, and RetryAfter is the later one.
func (a *Ahead) note(s *state, r *refusal, asked time.Duration, writes int64) {
	if r.result.Again || r.result.Wait <= 0 {
		return
	}
	r.told = time.Since(a.began)
	r.until = asked + min(r.result.RetryAfter(), a.Remember)
	r.askAt.Store(int64(r.told + askAgainAfter))
	// A write that comes after the look at writes forgets the refusal itself.
	if s.refusal.Store(r); s.writes.Load() != writes {
		s.refusal.CompareAndSwap(r, nil)
	}
}

// wrote forgets the refusal, because this Client has written to the limiter. Nor is a refusal remembered
// that is under way.
func (s *state) wrote() {
	s.writes.Add(1)
	s.refusal.Store(nil)
}

// refuse repeats the last refusal of Redis in v, if the permits cannot be back yet and this caller need not
// ask.
func (a *Ahead) refuse(s *state, l *engine.Limiter, wanted *engine.Want, v *engine.Result) bool {
	r := s.refusal.Load()
	if r == nil || wanted.Waits() || r.permits != wanted.Permits || r.given != l.Given.Text() ||
		wanted.Numbers && r.result.Limit == 0 {
		return false
	}
	now, ask := time.Since(a.began), r.askAt.Load()
	if now >= r.until || int64(now) >= ask && r.askAt.CompareAndSwap(ask, int64(now+askAgainAfter)) {
		return false
	}
	passed := max(0, now-r.told)
	*v = r.result
	v.Wait = max(1, v.Wait-passed.Microseconds())
	v.Reset = max(1, v.Reset-passed.Milliseconds())
	return true
}

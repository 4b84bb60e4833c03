package engine

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	refusalStripes = 64  // of the locks and counts of refusals
	maxRefusals    = 160 // limiters of a stripe whose refusals an Engine remembers: 10,240 in all

	// askAgainAfter is the greatest age of a repeated refusal: then the next caller asks
	// Redis, once.
	askAgainAfter = time.Millisecond
)

// refusals remembers when refused permits come back, so that callers that do not wait are
// refused without Redis.
type refusals struct {
	longest time.Duration // that a refusal is remembered; 0: not at all
	began   time.Time     // the times below are since then
	seed    maphash.Seed
	stripes [refusalStripes]stripeOfRefusals
}

// stripeOfRefusals has the limiters whose hashes fall on it. A stripe that is full forgets all: each costs
// one call.
type stripeOfRefusals struct {
	mu     sync.RWMutex
	writes int // of this Engine, to limiters of the stripe
	byHash map[string]*toldRefusal
}

// A toldRefusal is the last refusal of a limiter by Redis, to be repeated for a while.
type toldRefusal struct {
	permits int64
	given   any           // the given rate of the call
	result  Result        // at the time told
	told    time.Duration // when the reply arrived
	until   time.Duration // the permits may be there from then on
	askAt   atomic.Int64  // ns; the first caller from then on asks Redis
}

func (rs *refusals) init(longest time.Duration) {
	rs.longest, rs.began, rs.seed = longest, time.Now(), maphash.MakeSeed()
}

func (rs *refusals) now() time.Duration { return time.Since(rs.began) }

func (rs *refusals) stripe(hash string) *stripeOfRefusals {
	return &rs.stripes[maphash.String(rs.seed, hash)%refusalStripes]
}

// Refused repeats the last refusal of Redis in v, if the permits cannot be back yet and this
// caller need not ask. It takes pointers because copying would cost a third of its time.
func (l *Limiter) Refused(wanted *Want, v *Result) bool {
	rs := &l.engine.refusals
	if rs.longest == 0 || wanted.Waits() {
		return false
	}
	stripe := rs.stripe(l.Hash)
	stripe.mu.RLock()
	r := stripe.byHash[l.Hash]
	stripe.mu.RUnlock()
	if r == nil || r.permits != wanted.Permits || r.given != l.givenText() ||
		wanted.Numbers && r.result.Limit == 0 {
		return false
	}
	now, ask := rs.now(), r.askAt.Load()
	if now >= r.until || int64(now) >= ask && r.askAt.CompareAndSwap(ask, int64(now+askAgainAfter)) {
		return false
	}
	passed := max(0, now-r.told)
	*v = r.result
	v.Wait = max(1, v.Wait-passed.Microseconds())
	v.Reset = max(1, v.Reset-passed.Milliseconds())
	return true
}

// written returns the count of this Engine's writes to limiters of a hash's stripe.
func (rs *refusals) written(hash string) int {
	stripe := rs.stripe(hash)
	stripe.mu.RLock()
	defer stripe.mu.RUnlock()
	return stripe.writes
}

// forget makes the next callers of a limiter ask Redis, because this Engine has written to it. Nor is a
// refusal remembered that is under way.
func (rs *refusals) forget(hash string) {
	if rs.longest == 0 {
		return
	}
	stripe := rs.stripe(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	stripe.writes++
	delete(stripe.byHash, hash)
}

// note remembers the refusal of a call that began at asked, if it has a wait, and written still returns
// writes. The permits come back that long after Redis judged, which was between the call and the reply: they
// may be there from the earlier time on, and RetryAfter is the later one.
func (rs *refusals) note(l *Limiter, permits int64, v Result, asked time.Duration, writes int) {
	if v.Again || v.Wait <= 0 {
		return
	}
	v.Batch, v.Drift, v.Queued, v.Replaced = 0, 0, 0, false // those of this call
	r := &toldRefusal{permits: permits, given: l.givenText(), result: v, told: rs.now()}
	r.until = asked + min(v.RetryAfter(), rs.longest)
	r.askAt.Store(int64(r.told + askAgainAfter))
	stripe := rs.stripe(l.Hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	if stripe.writes != writes {
		return
	}
	if stripe.byHash == nil || len(stripe.byHash) == maxRefusals && stripe.byHash[l.Hash] == nil {
		stripe.byHash = map[string]*toldRefusal{}
	}
	stripe.byHash[l.Hash] = r
}

// givenText returns the text of the rate that acquires set, nil if they set none.
func (l *Limiter) givenText() any {
	if l.given == nil {
		return nil
	}
	return l.given.text
}

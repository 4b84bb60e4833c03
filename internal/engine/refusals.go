package engine

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxRefusals = 10_000 // limiters whose refusals an Engine remembers
	refusalWays = 4      // numbers of permits whose refusals it remembers for each
	writeShards = 64     // of the counts of writes

	// askAgainAfter is the greatest age of a repeated refusal: then the next caller asks
	// Redis, once.
	askAgainAfter = time.Millisecond
)

// refusals remembers when refused permits come back, so that callers that do not wait are
// refused without Redis. It holds the most recently refused limiters.
type refusals struct {
	longest time.Duration // that a refusal is remembered; 0: not at all
	began   time.Time     // the times below are since then
	seed    maphash.Seed
	writes  [writeShards]atomic.Int64 // writes of this Engine, by hash

	mu     sync.RWMutex
	byHash map[string]*lastRefusals // guarded by mu, as below
	order  []*lastRefusals          // a ring, from the oldest on once it is full
	oldest int
}

// lastRefusals are the refusals of one limiter.
type lastRefusals struct {
	hash    string
	dropped atomic.Bool
	said    [refusalWays]atomic.Pointer[toldRefusal]
}

// A toldRefusal is one refusal of Redis, to be repeated for a while.
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
	rs.byHash = map[string]*lastRefusals{}
}

func (rs *refusals) now() time.Duration { return time.Since(rs.began) }

// Refused repeats the last refusal of Redis in v, if the permits cannot be back yet and this
// caller need not ask. It takes pointers because copying would cost a third of its time.
func (l *Limiter) Refused(wanted *Want, v *Result) bool {
	rs := &l.engine.refusals
	if rs.longest == 0 || wanted.Waits() {
		return false
	}
	r := rs.find(l)
	if r == nil {
		return false
	}
	s := r.said[wanted.Permits%refusalWays].Load()
	if s == nil || s.permits != wanted.Permits || s.given != l.givenText() ||
		wanted.Numbers && s.result.Limit == 0 {
		return false
	}
	now, ask := rs.now(), s.askAt.Load()
	if now >= s.until || int64(now) >= ask && s.askAt.CompareAndSwap(ask, int64(now+askAgainAfter)) {
		return false
	}
	passed := max(0, now-s.told)
	*v = s.result
	v.Wait = max(1, v.Wait-passed.Microseconds())
	v.Reset = max(1, v.Reset-passed.Milliseconds())
	return true
}

// find returns the refusals of a limiter, nil if there are none.
func (rs *refusals) find(l *Limiter) *lastRefusals {
	if r := l.refusals.Load(); r != nil && !r.dropped.Load() && r.hash == l.Hash {
		return r
	}
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	r := rs.byHash[l.Hash]
	if r != nil {
		l.refusals.Store(r)
	}
	return r
}

// enter returns the refusals of a limiter, and drops the oldest limiter if there are too many.
func (rs *refusals) enter(hash string) *lastRefusals {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byHash[hash]; r != nil {
		return r
	}
	r := &lastRefusals{hash: hash}
	rs.byHash[hash] = r
	if len(rs.order) < maxRefusals {
		rs.order = append(rs.order, r)
		return r
	}
	old := rs.order[rs.oldest]
	old.dropped.Store(true)
	delete(rs.byHash, old.hash)
	rs.order[rs.oldest] = r
	rs.oldest = (rs.oldest + 1) % maxRefusals
	return r
}

// written returns the count of this Engine's writes to a limiter.
func (rs *refusals) written(hash string) *atomic.Int64 {
	return &rs.writes[maphash.String(rs.seed, hash)%writeShards]
}

// forget makes the next callers of a limiter ask Redis, because this Engine has written to it. Nor is a
// refusal remembered that is under way.
func (rs *refusals) forget(hash string) {
	if rs.longest == 0 {
		return
	}
	rs.written(hash).Add(1)
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	if r := rs.byHash[hash]; r != nil {
		for i := range r.said {
			r.said[i].Store(nil)
		}
	}
}

// note remembers the refusal of a call that began at asked, if it has a wait. The permits come
// back that long after Redis judged, which was between the call and the reply: they may be there
// from the earlier time on, and RetryAfter is the later one.
func (rs *refusals) note(l *Limiter, wanted Want, v Result, asked time.Duration) {
	if v.Again || v.Wait <= 0 {
		return
	}
	v.Batch, v.Drift, v.Queued, v.Replaced = 0, 0, 0, false // those of this call
	s := &toldRefusal{permits: wanted.Permits, given: l.givenText(), result: v, told: rs.now()}
	s.until = asked + min(v.RetryAfter(), rs.longest)
	s.askAt.Store(int64(s.told + askAgainAfter))
	rs.enter(l.Hash).said[wanted.Permits%refusalWays].Store(s)
}

// givenText returns the text of the rate that acquires set, nil if they set none.
func (l *Limiter) givenText() any {
	if l.given == nil {
		return nil
	}
	return l.given.text
}

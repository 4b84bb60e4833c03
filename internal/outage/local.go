package outage

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// maxLocals is how many limiters a Client can limit by itself: some 10 MB. Beyond
	// them, Local returns the error.
	maxLocals = 10_000

	// localSlots is in how many slots of time an interval is cut. The permits of a
	// slot come back together, when the last of them is due.
	bucketsPerInterval = 32

	// learntFor is how long what was learnt of a limiter is taken as it is.
	learntValidFor = 10 * time.Second

	// Limiters that nobody has used for localIdle are forgotten.
	localIdle = time.Minute
)

// A local is what a Client knows of one limiter for the time when Redis is away: its
// rate, its own share of it, and what it was granted within the last interval.
type localLimiter struct {
	circuit     *circuit
	limiter     *engine.Limiter
	withoutRate atomic.Bool // no rate was set when its permits were to be booked, nor used since

	givenRate atomic.Pointer[engine.GivenRate] // the last one that its acquires were to set; nil for none

	mu          sync.Mutex
	rate        int64 // 0 where it has not been learnt yet; guarded by mu, as all is
	interval    time.Duration
	share       float64
	learntAt    time.Time
	learning    bool
	usedAt      time.Time
	buckets     []bucket       // the oldest first
	unconfirmed []bookedRecord // sent, and not confirmed yet

	bookingNumber int64 // by which Redis knows a copy of the booking
}

// A localSlot is what this Client was granted in a slot of time.
type bucket struct {
	end      time.Time // the permits count from then on, for an interval
	permits  int64     // all of them
	unbooked int64     // those of them that Redis does not know of
}

// learn notes whether Redis has granted a caller permits that are not counted yet, and
// finds out about the limiter from time to time. Calls with another fallback count, too,
// where a limiter is known.
func (g *Guard) learn(limiter *engine.Limiter, permits int64, granted bool, fallback int) {
	now := time.Now()
	l := g.localLimiter(limiter, now, fallback == Local)
	if l == nil {
		return
	}
	l.noteGiven(limiter.Given())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usedAt = now
	l.withoutRate.Store(false) // Redis has judged a call
	if granted {
		l.bucketOf(now).permits += permits
	}
	if fallback == Local && !l.learning && now.Sub(l.learntAt) > learntValidFor {
		l.learning = g.engine.Work(l.learn)
	}
}

// note notes the rate that acquires set.
func (l *localLimiter) noteGiven(given *engine.GivenRate) {
	if given != nil {
		l.givenRate.Store(given)
	}
}

// assumeGiven notes the rate that the acquires of a limiter would set.
func (g *Guard) assumeGiven(limiter *engine.Limiter) {
	given := limiter.Given()
	if given == nil {
		return
	}
	g.Assume(limiter, given.Rate, false)
	if l := g.withKnownRate(limiter); l != nil {
		l.noteGiven(given)
	}
}

// Assume notes the rate that this Client has set, or wanted to set where none is known: a
// process may start while Redis is away.
func (g *Guard) Assume(limiter *engine.Limiter, rate engine.Rate, set bool) {
	now := time.Now()
	l := g.localLimiter(limiter, now, true)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usedAt = now; l.rate == 0 || set {
		l.withoutRate.Store(false)
		l.rate, l.interval = rate.Permits, rate.Interval
		if l.share == 0 {
			l.share = g.shareOf(rate.Type, 1)
		}
	}
}

// shareOf returns the share of this Client among so many.
func (g *Guard) shareOf(typ int, clients int64) float64 {
	switch {
	case g.settings.Fixed:
		return g.settings.Share
	case typ == wire.Overall:
		return 1 / float64(max(1, clients))
	}
	return 1
}

// of returns what is known of a limiter. If nothing is, it makes room where that is asked
// for; nil if there is none.
func (g *Guard) localLimiter(limiter *engine.Limiter, now time.Time, room bool) *localLimiter {
	circuit := g.circuit(limiter)
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.locals[limiter.Hash]; l != nil || !room {
		return l
	}
	const full = time.Second // between looks for room: each goes through all
	if since := now.Sub(g.sweptAt); since > localIdle || len(g.locals) >= maxLocals && since > full {
		g.sweep(now)
	}
	if len(g.locals) >= maxLocals {
		return nil
	}
	if g.locals == nil {
		g.locals = map[string]*localLimiter{}
	}
	l := &localLimiter{circuit: circuit, limiter: limiter}
	g.locals[limiter.Hash] = l
	return l
}

// sweep forgets limiters that nobody uses. Guarded by mu.
func (g *Guard) sweep(now time.Time) {
	g.sweptAt = now
	for hash, l := range g.locals {
		if l.idle(now) {
			delete(g.locals, hash)
		}
	}
}

func (l *localLimiter) idle(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.usedAt) > max(localIdle, l.interval) && !l.learning && l.unbookedLocked(now) == 0
}

// known returns what is known of a limiter, nil if its rate is not.
func (g *Guard) withKnownRate(limiter *engine.Limiter) *localLimiter {
	g.mu.Lock()
	l := g.locals[limiter.Hash]
	g.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate <= 0 {
		return nil
	}
	return l
}

// rate returns the rate of a limiter, 0 if it is not known.
func (g *Guard) rate(limiter *engine.Limiter) int64 {
	if l := g.withKnownRate(limiter); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.rate
	}
	return 0
}

// unbooked returns the limiters of a circuit of which Redis does not know all.
func (g *Guard) unbooked(c *circuit) (all []*localLimiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.locals {
		if l.circuit == c && l.unbooked() > 0 {
			all = append(all, l)
		}
	}
	return all
}

// unbooked returns how many permits Redis does not know of.
func (l *localLimiter) unbooked() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unbookedLocked(time.Now())
}

// own is unbooked: what is back after an interval is not booked any more. Guarded by mu.
func (l *localLimiter) unbookedLocked(now time.Time) (sum int64) {
	l.prune(now)
	for _, s := range l.buckets {
		if now.Before(s.end.Add(l.interval)) {
			sum += s.unbooked
		}
	}
	if sum == 0 {
		l.unconfirmed = nil
	}
	return sum
}

// keepsToShare reports whether the Client takes no more than its share from Redis: others
// may not know yet that it is back, or Redis does not know yet what was granted without it.
func (l *localLimiter) keepsToShare() bool { return l.circuit.returning() || l.unbooked() > 0 }

// limit returns how many permits this Client may take by itself, and in which time:
// its share of the rate, and if that is less than one permit, one in a longer time.
// Guarded by mu.
func (l *localLimiter) limit() (permits int64, window time.Duration) {
	const longest = 1 << 61 // ns, some 73 years
	part := float64(l.rate) * l.share
	switch {
	case l.rate == 0: // it is about to be learnt
		return 0, max(learntValidFor, l.interval)
	case part >= 1:
		return int64(part), min(longest, l.interval)
	}
	return 1, time.Duration(min(longest, float64(l.interval)/part))
}

// prune forgets slots whose permits are back. Guarded by mu.
func (l *localLimiter) prune(now time.Time) {
	_, window := l.limit()
	l.buckets = slices.DeleteFunc(l.buckets, func(s bucket) bool { return !now.Before(s.end.Add(window)) })
}

// slot returns the slot of now. Guarded by mu.
func (l *localLimiter) bucketOf(now time.Time) *bucket {
	l.prune(now)
	_, window := l.limit()
	width := max(time.Millisecond, min(window, cmp.Or(l.interval, window))/bucketsPerInterval)
	if n := len(l.buckets); n == 0 || now.After(l.buckets[n-1].end) {
		l.buckets = append(l.buckets, bucket{end: now.Add(width)})
	}
	return &l.buckets[len(l.buckets)-1]
}

// judge reports whether permits are there, and takes none. Guarded by mu.
func (l *localLimiter) judge(now time.Time, permits int64) engine.Verdict {
	l.prune(now)
	limit, window := l.limit()
	v := engine.Verdict{Degraded: true, Limit: l.rate, Every: l.interval.Milliseconds(), Left: limit}
	for _, s := range l.buckets {
		v.Left -= s.permits
		v.Reset = max(v.Reset, s.end.Add(window).Sub(now).Milliseconds()+1)
	}
	if v.OK = permits <= v.Left; v.OK {
		return v
	}
	// One that wants more than the share can only wait for Redis.
	wait, left := slowestProbe, v.Left
	for _, s := range l.buckets {
		if left += s.permits; left >= permits {
			wait = s.end.Add(window).Sub(now) + time.Microsecond
			break
		}
	}
	v.Wait = wait.Microseconds()
	return v
}

// grant takes permits that are there. Guarded by mu.
func (l *localLimiter) grant(now time.Time, permits int64, unbooked bool) engine.Verdict {
	s := l.bucketOf(now)
	s.permits += permits
	if unbooked {
		s.unbooked += permits
	}
	return l.judge(now, 0)
}

// forget takes back permits that Redis has not granted.
func (l *localLimiter) uncharge(permits int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.buckets) - 1; i >= 0 && permits > 0; i-- {
		n := min(permits, l.buckets[i].permits-l.buckets[i].unbooked)
		l.buckets[i].permits -= n
		permits -= n
	}
}

// Gives takes permits back that were granted without Redis, while that is away. It reports
// whether there were as many.
func (g *Guard) TakeBackUnbooked(limiter *engine.Limiter, permits int64) bool {
	if g.openCircuits.Load() == 0 || g.circuit(limiter).openCause() == nil {
		return false
	}
	l := g.withKnownRate(limiter)
	return l != nil && l.takeBackUnbooked(permits)
}

// Gave notes that permits went back to Redis.
func (g *Guard) NoteReleased(limiter *engine.Limiter, permits int64) {
	if !g.settings.Policy.Bounded {
		return // nothing is known, or little
	}
	if l := g.localLimiter(limiter, time.Time{}, false); l != nil {
		l.uncharge(permits)
	}
}

// give takes back permits that were granted without Redis, the newest first, and
// reports whether there were as many.
func (l *localLimiter) takeBackUnbooked(permits int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unbookedLocked(time.Now()) < permits || len(l.unconfirmed) > 0 {
		return false
	}
	for i := len(l.buckets) - 1; i >= 0 && permits > 0; i-- {
		n := min(permits, l.buckets[i].unbooked)
		l.buckets[i].unbooked -= n
		l.buckets[i].permits -= n
		permits -= n
	}
	return true
}

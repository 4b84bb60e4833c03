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
	// bucketsPerInterval is the number of time buckets in an interval. The
	// permits of a bucket come back together, when the last of them is due: later
	// than exact by a 32nd of an interval, never earlier.
	bucketsPerInterval = 32

	// learntValidFor is how long the learnt rate and share are used before they
	// are asked for again.
	learntValidFor = 10 * time.Second
)

// A localLimiter is the state of one limiter in this process while Redis is away: the
// rate, the Client's share of it, and the grants within the last interval. It counts
// grants by Redis as well, so that an outage does not begin with a second full share.
type localLimiter struct {
	circuit *circuit
	limiter *engine.Limiter
	// bookingFailed says that the last booking failed, because Redis had no rate or
	// no memory, and that Redis has judged no call since.
	bookingFailed atomic.Bool

	// givenRate is the last rate that acquires were to set; nil for none. A
	// booking sets it where Redis came back empty.
	givenRate atomic.Pointer[engine.GivenRate]

	mu          sync.Mutex
	rate        int64 // 0 if not learnt yet; guarded by mu, as all below
	interval    time.Duration
	share       float64
	learntAt    time.Time
	learning    bool
	usedAt      time.Time
	buckets     []bucket       // the oldest first
	unconfirmed []bookedRecord // of a booking that was sent

	bookingNumber int64 // by which Redis recognises a copy of the booking
}

// A bucket is what this Client was granted in a short span of time.
type bucket struct {
	end      time.Time // from then on the permits count, for an interval
	permits  int64     // granted in the bucket
	unbooked int64     // the part of permits that Redis does not know of
}

// learn counts permits that Redis has granted, unless they were charged before, and asks
// about the limiter from time to time. Calls with another fallback are counted if the
// limiter is known: they use the same rate. The first call to a limiter that has the
// given rate asks nothing: many keys are used only once, and asking would double their
// cost.
func (g *Guard) learn(limiter *engine.Limiter, permits int64, granted bool, fallback int) {
	now := time.Now()
	l := g.localLimiter(limiter, now, fallback == Local)
	if l == nil {
		return
	}
	given := limiter.Given
	l.noteGiven(given)
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.usedAt.IsZero() && granted && given != nil && given.Replaces
	l.usedAt = now
	l.bookingFailed.Store(false) // Redis has judged a call
	if first {
		l.assume(given.Rate)
	}
	if granted {
		l.bucketOf(now).permits += permits
	}
	if fallback == Local && !first {
		l.learnAgain(now)
	}
}

// assume sets the rate, and the share unless it is learnt, from the number of Clients
// lately counted for another limiter. If that number is too small, the Clients grant too
// much until Redis is back. Guarded by mu.
func (l *localLimiter) assume(rate engine.Rate) {
	l.rate, l.interval = rate.Permits, rate.Interval
	if g := l.circuit.guard; l.share == 0 {
		l.share = g.shareOf(rate.Type, g.mostClients.Load())
	}
}

// learnAgain asks about the limiter from time to time. Guarded by mu.
func (l *localLimiter) learnAgain(now time.Time) {
	if !l.learning && now.Sub(l.learntAt) > learntValidFor {
		l.learning = l.circuit.guard.engine.Work(l.learn)
	}
}

// noteGiven records the rate that acquires set.
func (l *localLimiter) noteGiven(given *engine.GivenRate) {
	if given != nil {
		l.givenRate.Store(given)
	}
}

// withAssumedRate is withKnownRate, and otherwise assumes the rate that the acquires of the
// limiter would set. The result is not looked up again: another limiter may evict it.
func (g *Guard) withAssumedRate(limiter *engine.Limiter) *localLimiter {
	given := limiter.Given
	if given == nil {
		return g.withKnownRate(limiter)
	}
	l := g.localLimiter(limiter, time.Now(), true)
	l.noteGiven(given)
	l.assumeUnlessKnown(given.Rate, false)
	return l
}

// Assume records the rate that this Client has set. If it only tried to, the rate
// counts where none is known: a process may start while Redis is down.
func (g *Guard) Assume(limiter *engine.Limiter, rate engine.Rate, set bool) {
	if l := g.localLimiter(limiter, time.Now(), true); l != nil {
		l.assumeUnlessKnown(rate, set)
	}
}

// assumeUnlessKnown assumes a rate. One that was not set counts where none is known.
func (l *localLimiter) assumeUnlessKnown(rate engine.Rate, set bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usedAt = time.Now(); l.rate == 0 || set {
		l.bookingFailed.Store(false)
		l.assume(rate)
	}
}

// noteClients records how many Clients use a limiter, for the shares of limiters whose Clients were not
// counted.
func (g *Guard) noteClients(n int64, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n >= g.mostClients.Load() || now.Sub(g.countedAt) > learntValidFor {
		g.mostClients.Store(n)
		g.countedAt = now
	}
}

// shareOf returns the share of this Client in a limiter that some Clients use. A
// PerClient limit is not shared.
func (g *Guard) shareOf(typ int, clients int64) float64 {
	switch {
	case g.settings.Fixed:
		return g.settings.Share
	case typ == wire.Overall:
		return 1 / float64(max(1, clients))
	}
	return 1
}

// unbooked returns how many permits Redis does not know of.
func (l *localLimiter) unbooked() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unbookedLocked(time.Now())
}

// unbookedLocked returns the sum of unbooked permits less than an interval old. Older
// permits have come back, and booking them would take permits twice. Guarded by mu.
func (l *localLimiter) unbookedLocked(now time.Time) (sum int64) {
	l.prune(now)
	for _, s := range l.buckets {
		if now.Before(s.end.Add(l.interval)) {
			sum += s.unbooked
		}
	}
	// A booking that is not confirmed by now has nothing left to book.
	if sum == 0 {
		l.unconfirmed = nil
	}
	return sum
}

// keepsToShare reports whether the Client takes no more than its share from
// Redis. Another Client may not know yet that Redis is back, or Redis may not
// know yet what this one has granted.
func (l *localLimiter) keepsToShare() bool { return l.circuit.returning() || l.unbooked() > 0 }

// limit returns how many permits this Client may take alone, and in which time:
// its share of the rate, or one permit in a longer time if the share is less than
// one. Guarded by mu.
func (l *localLimiter) limit() (permits int64, window time.Duration) {
	const longest = 1 << 61 // ns, some 73 years
	part := float64(l.rate) * l.share
	switch {
	case l.rate == 0: // not learnt yet
		return 0, max(learntValidFor, l.interval)
	case part >= 1:
		return int64(part), min(longest, l.interval)
	}
	return 1, time.Duration(min(longest, float64(l.interval)/part))
}

// prune forgets buckets whose permits are back. Guarded by mu.
func (l *localLimiter) prune(now time.Time) {
	_, window := l.limit()
	l.buckets = slices.DeleteFunc(l.buckets, func(s bucket) bool { return !now.Before(s.end.Add(window)) })
}

// bucketOf returns the bucket of now. A bucket is never longer than a part of the
// interval, even if a small share has a longer window: bookings are dated by the
// ends of buckets. Guarded by mu.
func (l *localLimiter) bucketOf(now time.Time) *bucket {
	l.prune(now)
	_, window := l.limit()
	width := max(time.Millisecond, min(window, cmp.Or(l.interval, window))/bucketsPerInterval)
	if n := len(l.buckets); n == 0 || now.After(l.buckets[n-1].end) {
		l.buckets = append(l.buckets, bucket{end: now.Add(width)})
	}
	return &l.buckets[len(l.buckets)-1]
}

// judge reports whether permits are available, and takes none. Guarded by mu.
func (l *localLimiter) judge(now time.Time, permits int64) engine.Result {
	l.prune(now)
	limit, window := l.limit()
	v := engine.Result{Degraded: true, Limit: l.rate, Every: l.interval.Milliseconds(), Left: limit}
	for _, s := range l.buckets {
		v.Left -= s.permits
		v.Reset = max(v.Reset, s.end.Add(window).Sub(now).Milliseconds()+1)
	}
	if v.OK = permits <= v.Left; v.OK {
		return v
	}
	// A caller that wants more than the share can only wait for Redis.
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

// grant takes permits that are available. Guarded by mu.
func (l *localLimiter) grant(now time.Time, permits int64, unbooked bool) engine.Result {
	s := l.bucketOf(now)
	s.permits += permits
	if unbooked {
		s.unbooked += permits
	}
	return l.judge(now, 0)
}

// uncharge takes back permits that Redis was asked for and has not granted. It
// leaves the unbooked ones, which were granted here.
func (l *localLimiter) uncharge(permits int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The newest first: they count for the longest time, and the charge to undo was
	// recent.
	for i := len(l.buckets) - 1; i >= 0 && permits > 0; i-- {
		n := min(permits, l.buckets[i].permits-l.buckets[i].unbooked)
		l.buckets[i].permits -= n
		permits -= n
	}
}

// TakeBackUnbooked takes back permits that were granted without Redis, while
// Redis is down. It reports whether there were enough.
func (g *Guard) TakeBackUnbooked(limiter *engine.Limiter, permits int64) bool {
	if g.openCircuits.Load() == 0 || g.circuit(limiter).openCause() == nil {
		return false
	}
	l := g.withKnownRate(limiter)
	return l != nil && l.takeBackUnbooked(permits)
}

// NoteReleased records that permits went back to Redis, so that the share has
// them again.
func (g *Guard) NoteReleased(limiter *engine.Limiter, permits int64) {
	if !g.settings.Policy.Bounded {
		return // no call has charged a share
	}
	if l := g.localLimiter(limiter, time.Time{}, false); l != nil {
		l.uncharge(permits)
	}
}

// takeBackUnbooked takes back unbooked permits, the newest first, and reports
// whether there were enough. While a booking is under way it takes none: Redis
// may already have their records.
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

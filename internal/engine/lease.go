package engine

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longestLease bounds the time of a lease. Keys outlive the interval of their last record by a second,
	// so they outlive a record that is dated a lease ahead as well (scripts/parts/write.lua).
	longestLease = time.Second

	// shortestLease is far more than a round trip takes. A shorter lease would be over before it is used.
	shortestLease = 5 * time.Millisecond

	partsOfInterval = 20  // a lease lasts at most this part of the interval
	leastLeased     = 100 // a smaller rate is not leased
	worthLeasing    = 8   // permits: a lease takes two calls
	learnEvery      = 10 * time.Second
	defaultShare    = 0.5
	maxLeased       = 10000 // limiters whose demand an Engine knows
	closedLease     = math.MinInt64 / 2
)

// A Leasing says how a caller's permits are taken ahead. The zero value means no leases.
type Leasing struct {
	Longest time.Duration // of a lease
	Share   float64       // the largest share of the remaining permits that a lease takes
}

// Validate returns why the Leasing cannot be used, as an error made by refuse.
func (g Leasing) Validate(refuse func(argument string, value any, bound string) error) error {
	switch {
	case g.Longest != 0 && g.Longest < shortestLease:
		return refuse("Max of WithLease", g.Longest, fmt.Sprintf("be 0 or at least %v", shortestLease))
	case !(g.Share >= 0 && g.Share <= 1): // or not a number
		return refuse("Share of WithLease", g.Share, "be more than 0 and at most 1, or 0 for the default")
	}
	return nil
}

// leases hold the permits that an Engine has taken ahead and hands out without Redis.
//
// A lease is a record that bears the time of the lease's end, so that it counts until an interval after
// that. Its permits are used no later than that time, so no interval has more than the rate. When the lease
// ends, the script that gives back the rest redates the used part to its last use.
type leases struct {
	engine *Engine

	mu      sync.RWMutex
	byHash  map[string]*leased // guarded by mu, as below
	asking  pending            // jobs that ask Redis
	closing bool               // no lease is taken any more
	closed  bool               // nor is one settled

	silence atomic.Pointer[time.Timer] // set by close
}

// leased is what an Engine knows of the demand for one limiter.
type leased struct {
	leases  *leases
	hash    string
	current atomic.Pointer[lease]
	dropped atomic.Bool

	mu        sync.Mutex
	leasing   Leasing       // of the last call; guarded by mu, as below
	next      *lease        // taken before the current one is used up
	taking    bool          // a goroutine takes the next one
	since     time.Time     // when it began to count
	asked     int64         // permits that were taken from Redis since then
	used      int64         // permits that the last lease used
	exhausted bool          // it used most of them
	left      int64         // permits that Redis had left, by its last reply
	said      time.Time     // when it did
	clients   int64         // that share them
	learnt    time.Time     // when clients and lasts were learnt
	lasts     time.Duration // how long leases last; 0 if the limiter is not leased
	ended     time.Time     // when the last lease ended
	scarce    time.Time     // until then no lease is taken, because Redis has refused permits
	settling  pending       // settlements under way
	freeing   pending       // those of them that give permits back
}

// A pending counts what is under way. Guarded by its owner's mu.
type pending struct {
	n    int
	done chan struct{} // closed when n is 0 again; nil as long as there was nothing
}

// begin counts one more.
func (p *pending) begin() {
	if p.n == 0 {
		p.done = make(chan struct{})
	}
	p.n++
}

// end counts one less.
func (p *pending) end() {
	if p.n--; p.n == 0 {
		close(p.done)
	}
}

// A lease holds permits that are handed out until it ends.
type lease struct {
	group     *Group
	given     any // the given rate of its call
	result    Result
	size      int64
	began     time.Time // before the call that took it: Redis has dated it by a later time
	beganWall int64     // the same in ns of the clock: a suspended machine stops the other one
	lasts     time.Duration

	left     atomic.Int64 // closedLease and less when it has ended
	lastUse  atomic.Int64 // ms since began, rounded up
	renewing atomic.Bool  // the next one was asked for
}

func (ls *leases) init(e *Engine) {
	ls.engine, ls.byHash = e, map[string]*leased{}
	// A lease needs a clock of known pace, and a record that releases leave alone.
	ls.closing = e.config.Err != nil || e.config.Clock != nil || !e.config.Plain.Leases()
}

// settleQuiet is how long close waits for a silent Redis.
const settleQuiet = time.Second / 2

// close ends all leases, and gives back what they have left, until Redis has replied to none for settleQuiet,
// and for settleLeaseFor at most.
func (ls *leases) close() {
	ls.mu.Lock()
	ls.closing = true
	all := slices.Collect(maps.Values(ls.byHash))
	ls.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), settleLeaseFor)
	defer cancel()
	silence := time.AfterFunc(settleQuiet, cancel)
	ls.silence.Store(silence)
	defer silence.Stop()
	for _, d := range all {
		d.mu.Lock()
		d.endAll()
		d.mu.Unlock()
	}
	for _, u := range ls.engine.withdrawals.takeUnsettled() {
		u.withdraw()
	}
	ls.wait(ctx)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
}

// wait waits until no job is under way, or ctx ends. A job that ends may have begun another one.
func (ls *leases) wait(ctx context.Context) {
	for {
		ls.mu.RLock()
		asking := ls.asking
		ls.mu.RUnlock()
		if asking.n == 0 {
			return
		}
		select {
		case <-asking.done:
		case <-ctx.Done():
			return
		}
	}
}

// note records the outcome of a job that has asked Redis: close goes on while Redis replies, also to jobs
// that were under way before.
func (ls *leases) note(err error) {
	if silence := ls.silence.Load(); silence != nil && err == nil {
		silence.Reset(settleQuiet)
	}
}

// work runs a job that asks Redis, and reports whether it does. close waits for the job.
func (ls *leases) work(job func(ctx context.Context)) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return false
	}
	started := ls.engine.Work(func(ctx context.Context) {
		defer func() {
			ls.mu.Lock()
			defer ls.mu.Unlock()
			ls.asking.end()
		}()
		job(ctx)
	})
	if started {
		ls.asking.begin()
	}
	return started
}

// open reports whether leases may be taken.
func (ls *leases) open() bool {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return !ls.closing
}

// of returns the demand for a limiter, nil if the Engine knows none.
func (ls *leases) of(l *Limiter) *leased {
	if d := l.leased.Load(); d != nil && d.hash == l.Hash && !d.dropped.Load() {
		return d
	}
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	d := ls.byHash[l.Hash]
	if d != nil {
		l.leased.Store(d)
	}
	return d
}

// enter returns the demand for a limiter. If there are too many, it forgets all that have no lease.
func (ls *leases) enter(hash string) *leased {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if d := ls.byHash[hash]; d != nil {
		return d
	}
	if len(ls.byHash) >= maxLeased {
		for hash, d := range ls.byHash {
			if d.current.Load() == nil {
				d.dropped.Store(true)
				delete(ls.byHash, hash)
			}
		}
	}
	d := &leased{leases: ls, hash: hash}
	ls.byHash[hash] = d
	return d
}

// Leased takes permits from a lease, and reports whether one had them. It takes pointers because
// copying would cost a third of its time.
func (l *Limiter) Leased(wanted *Want, v *Result) bool {
	d := l.engine.leases.of(l)
	if d == nil {
		return false
	}
	for now := time.Now(); ; {
		s := d.current.Load()
		if s == nil || s.given != l.givenText() {
			return false
		}
		age := now.Sub(s.began)
		left, ok := s.take(wanted.Permits, age, now)
		if !ok {
			if !d.advance(s, age) {
				return false
			}
			continue
		}
		*v = s.result
		v.Left += left
		// The next lease comes before this one is used up or over.
		nearlyOver := left < s.size/4 || age > s.lasts*3/4
		if nearlyOver && !s.renewing.Load() && s.renewing.CompareAndSwap(false, true) {
			d.renew(s.group)
		}
		return true
	}
}

// take takes permits from the lease at an age, if it has them and has not ended, and returns what it has
// left.
func (s *lease) take(permits int64, age time.Duration, now time.Time) (left int64, ok bool) {
	if age >= s.lasts || now.UnixNano()-s.beganWall >= int64(s.lasts) || s.left.Load() < permits {
		return 0, false
	}
	// The use is noted before the permits are taken: a settlement in between must not miss it.
	use := (age + time.Millisecond - 1).Milliseconds()
	for last := s.lastUse.Load(); last < use && !s.lastUse.CompareAndSwap(last, use); {
		last = s.lastUse.Load()
	}
	// A call that gets no permits must not take any meanwhile: a settlement would count them as used.
	for left = s.left.Load(); left >= permits; left = s.left.Load() {
		if s.left.CompareAndSwap(left, left-permits) {
			return left - permits, true
		}
	}
	return 0, false
}

// advance ends a lease that did not have the permits, and puts the next one in its place, if there is one.
func (d *leased) advance(s *lease, age time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.next
	if next == nil && age < s.lasts {
		return false // other callers may use what it has
	}
	if d.current.CompareAndSwap(s, next) {
		d.next = nil
		d.settle(s)
	}
	return next != nil
}

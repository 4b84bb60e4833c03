package ahead

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

// closedLease is what an ended lease has left.
const closedLease = math.MinInt64 / 2

// leased are the leases of one limiter.
//
// A lease is a record that bears the time of the lease's end, so that it counts until an interval after
// that. Its permits are used no later than that time, so no interval has more than the rate. When the lease
// ends, the script that gives back the rest redates the used part to its last use.
type leased struct {
	ahead   *Ahead
	current atomic.Pointer[lease]

	mu       sync.Mutex
	demand   demand  // guarded by mu, as all below
	next     *lease  // taken before the current one is used up
	taking   bool    // a goroutine takes the next one
	settling pending // settlements under way
	freeing  pending // those of them that give permits back
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
	group     *engine.Group
	given     string // the given rate of its call
	result    engine.Result
	size      int64
	began     time.Time // before the call that took it: Redis has dated it by a later time
	beganWall int64     // the same in ns of the clock: a suspended machine stops the other one
	lasts     time.Duration

	left     atomic.Int64 // closedLease and less when it has ended
	lastUse  atomic.Int64 // ms since began, rounded up
	renewing atomic.Bool  // the next one was asked for
}

// unused reports whether nothing is lost if the leases of the limiter are forgotten.
func (d *leased) unused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.taking && d.current.Load() == nil && d.settling.n == 0
}

// take takes permits from a lease, and reports whether one had them.
func (d *leased) take(l *engine.Limiter, wanted *engine.Want, v *engine.Result) bool {
	for now := time.Now(); ; {
		s := d.current.Load()
		if s == nil || s.given != l.Given.Text() {
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

// NoteAsked notes the outcome of a call that asked Redis. If the limiter is used often enough for a
// lease, a goroutine takes one.
func (a *Ahead) NoteAsked(l *engine.Limiter, leasing Leasing, wanted *engine.Want, v *engine.Result) {
	if a.of(l.Hash) == nil && !a.open() {
		return
	}
	d, now := &a.enter(l).leased, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.demand.leasing = leasing
	if !v.OK {
		// Other clients have used up what was left, or the permits are more than the lease has.
		d.endAll()
		d.demand.noteScarce(now)
		return
	}
	if wanted.Numbers {
		d.demand.noteLeft(v.Left, now)
	}
	if d.demand.noteAsked(wanted.Permits, now) && d.current.Load() == nil {
		d.startTaking(a.engine.Group(l))
	}
}

// renew asks for the next lease before the current one is used up.
func (d *leased) renew(g *engine.Group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startTaking(g)
}

// startTaking starts the goroutine that takes the next lease. Guarded by mu.
func (d *leased) startTaking(g *engine.Group) {
	if !d.taking && d.next == nil && time.Now().After(d.demand.scarce) && d.ahead.open() {
		d.taking = d.ahead.work(func(ctx context.Context) {
			s := d.ask(ctx, g)
			d.store(s, s != nil && g.HasLine())
		})
	}
}

// store makes a lease the next one, or settles it if there is a line or no lease may be taken any more.
func (d *leased) store(s *lease, line bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taking = false; s == nil {
		return
	}
	if line || !d.ahead.open() { // under mu: Close looks for leases after that
		d.settle(s)
		return
	}
	// It also ends if no caller asks any more.
	time.AfterFunc(time.Until(s.began.Add(s.lasts)), func() { d.expire(s) })
	if current := d.current.Load(); current != nil && current.left.Load() > 0 {
		d.next = s
	} else {
		d.current.Store(s)
		d.demand.asked = 0
		d.settle(current)
	}
}

// expire ends a lease whose time is over.
func (d *leased) expire(s *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch s {
	case d.next:
		d.next = nil
	case d.current.Load():
		d.current.Store(d.next)
		d.next = nil
	}
	d.settle(s)
}

// ask takes a lease from Redis, nil if it gets none. It waits for the reply, however late: what was taken has
// to be given back.
func (d *leased) ask(ctx context.Context, g *engine.Group) *lease {
	l, a := g.Limiters()[0], d.ahead
	if g.HasLine() || !a.KnowsAll(l) || !d.learn(ctx, l) || !a.open() {
		return nil
	}
	s := &lease{group: g, given: l.Given.Text(), began: time.Now()}
	s.beganWall = s.began.UnixNano()
	d.mu.Lock()
	s.lasts = d.demand.lasts
	if current := d.current.Load(); current != nil {
		s.size = d.demand.size(current.size, current.left.Load(), s.began)
	} else {
		s.size = d.demand.size(0, 0, s.began)
	}
	d.mu.Unlock()
	if s.size < worthLeasing {
		return nil
	}
	wanted := engine.Want{Permits: s.size, Numbers: true, Reserve: true, Lease: s.lasts}
	results, err := g.Acquire(ctx, []int64{s.size}, wanted)
	if a.noteReply(err); err != nil {
		return nil
	}
	s.result = results[0]
	s.result.Replaced = false // all callers of the lease get this result
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.demand.noteLeft(s.result.Left, now)
	if !s.result.OK {
		d.demand.noteScarce(now)
		return nil
	}
	s.left.Store(s.size)
	d.note(s, s.size)
	d.demand.noteRate(s.result.Limit, s.result.Every)
	// The rate has changed, or Redis was silent meanwhile and does not know what was granted without it.
	if d.demand.lasts < s.lasts || !a.KnowsAll(l) {
		d.settle(s)
		return nil
	}
	return s
}

// learn learns what is left and how many Clients share it, unless that is known. It reports whether the
// limiter may be leased.
func (d *leased) learn(ctx context.Context, l *engine.Limiter) bool {
	d.mu.Lock()
	isKnown, lasts := d.demand.known(time.Now()), d.demand.lasts
	d.mu.Unlock()
	if isKnown {
		return lasts > 0
	}
	ctx, cancel := context.WithTimeout(ctx, longestLease)
	defer cancel()
	p, err := l.Peers(ctx, l.Given)
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.demand.notePeers(p, time.Now())
	return d.demand.lasts > 0
}

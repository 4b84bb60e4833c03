package engine

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// longestLease bounds the time of a lease. Keys outlive the interval of their last record by a second,
	// so they outlive a record that is dated a lease ahead as well (scripts/parts/lifetime.lua).
	longestLease = time.Second

	// ShortestLease is far more than a round trip takes. A shorter lease would be over before it is used.
	ShortestLease = 5 * time.Millisecond

	partsOfInterval = 20  // a lease lasts at most this part of the interval
	leastLeased     = 100 // a smaller rate is not leased
	worthLeasing    = 8   // permits: a lease takes two calls
	learnEvery      = 10 * time.Second
	maxLeased       = 10000 // limiters whose demand an Engine knows
	closedLease     = math.MinInt64 / 2
)

// A Leasing says how an Engine takes permits ahead. The zero value is for none.
type Leasing struct {
	Longest time.Duration // of a lease
	Share   float64       // the part of the permits that are left which a lease takes at most
}

// leases are the permits that an Engine has taken ahead, and hands out without Redis.
//
// A lease is a record that is dated by the end of the lease, so that it counts for an interval from then on.
// Whenever one of its permits is used, that is no later than the record says: so no interval has more than
// the rate. When the lease ends, the script that gives back the rest dates the used part back to its last
// use.
type leases struct {
	engine  *Engine
	leasing Leasing

	mu     sync.RWMutex
	byHash map[string]*leased // guarded by mu, as below
	closed bool
}

// leased is what an Engine knows of the demand for one limiter.
type leased struct {
	leases  *leases
	hash    string
	current atomic.Pointer[lease]
	dropped atomic.Bool

	mu        sync.Mutex
	next      *lease        // taken before the current one is used up; guarded by mu, as below
	taking    bool          // a goroutine takes the next one
	since     time.Time     // when it began to count
	asked     int64         // permits that were taken from Redis since then
	used      int64         // permits that the last lease used
	exhausted bool          // it used most of them
	left      int64         // permits that Redis had left, as its last reply said
	said      time.Time     // when it did
	clients   int64         // that share them
	learnt    time.Time     // when clients and lasts were learnt
	lasts     time.Duration // how long leases last; 0 if the limiter is not leased
}

// A lease is permits that are handed out until it ends.
type lease struct {
	of        *leased
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
	ls.engine, ls.leasing, ls.byHash = e, e.config.Leasing, map[string]*leased{}
	if e.config.Clock != nil {
		ls.leasing = Leasing{} // a lease needs to know how fast the clock goes that dates it
	}
}

// close ends all leases, and gives back what they have left within a time.
func (ls *leases) close(within time.Duration) {
	ls.mu.Lock()
	ls.closed = true
	all := slices.Collect(maps.Values(ls.byHash))
	ls.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var settling sync.WaitGroup
	for _, d := range all {
		d.mu.Lock()
		for _, s := range []*lease{d.current.Swap(nil), d.next} {
			if settle := d.end(s); settle != nil {
				settling.Go(func() { settle(ctx) })
			}
		}
		d.next = nil
		d.mu.Unlock()
	}
	settling.Wait()
}

// open reports whether leases may be taken.
func (ls *leases) open() bool {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return !ls.closed
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

// Leased takes permits from a lease, and reports whether one has them. It takes pointers because copies
// would take a third of its time.
func (l *Limiter) Leased(wanted *Want, v *Result) bool {
	ls := &l.engine.leases
	if ls.leasing.Longest == 0 {
		return false
	}
	d := ls.of(l)
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
		if (left < s.size/4 || age > s.lasts*3/4) && !s.renewing.Load() && s.renewing.CompareAndSwap(false, true) {
			d.renew(s.group)
		}
		return true
	}
}

// take takes permits from the lease at an age, if it has them and has not ended, and returns what it has left.
func (s *lease) take(permits int64, age time.Duration, now time.Time) (left int64, ok bool) {
	if age >= s.lasts || now.UnixNano()-s.beganWall >= int64(s.lasts) || s.left.Load() < permits {
		return 0, false
	}
	// The use is noted before the permits are taken: a settlement in between must not miss it.
	use := (age + time.Millisecond - 1).Milliseconds()
	for last := s.lastUse.Load(); last < use && !s.lastUse.CompareAndSwap(last, use); {
		last = s.lastUse.Load()
	}
	if left = s.left.Add(-permits); left >= 0 {
		return left, true
	}
	s.left.Add(permits)
	return 0, false
}

// giveBack takes permits back that the lease has handed out, if it has not ended.
func (s *lease) giveBack(permits int64) bool {
	for {
		left := s.left.Load()
		if left < 0 || left+permits > s.size || time.Since(s.began) >= s.lasts {
			return false
		}
		if s.left.CompareAndSwap(left, left+permits) {
			return true
		}
	}
}

// advance ends a lease that did not have the permits, and puts the next one in its place, if there is one.
func (d *leased) advance(s *lease, age time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.next
	if next == nil && age < s.lasts {
		return false // others may still use what it has
	}
	if d.current.CompareAndSwap(s, next) {
		d.next = nil
		d.settle(s)
	}
	return next != nil
}

// settle ends a lease, and settles it in the background. Guarded by mu.
func (d *leased) settle(s *lease) {
	if settle := d.end(s); settle != nil {
		d.leases.engine.Work(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, settleLeaseFor)
			defer cancel()
			settle(ctx)
		})
	}
}

// end ends a lease, and returns the function that settles it; nil if there is none, or it has ended before.
// If it cannot be settled, its permits come back an interval after its end. Guarded by mu.
func (d *leased) end(s *lease) (settle func(context.Context)) {
	if s == nil {
		return nil
	}
	part, lastUse, open := s.close()
	if !open {
		return nil
	}
	d.used, d.exhausted = part.Used, part.Reserved-part.Used < s.size/4
	return func(ctx context.Context) {
		part.Idle = max(0, time.Since(lastUse))
		_, _ = s.group.Settlement([]Part{part}).Settle(ctx, false)
	}
}

// close ends a lease, and returns what is to be settled of it, and when its permits were last used. It
// reports whether the lease was open.
func (s *lease) close() (part Part, lastUse time.Time, open bool) {
	left := s.left.Swap(closedLease)
	if left <= closedLease/2 {
		return Part{}, time.Time{}, false
	}
	part = Part{Records: s.result.Records, Reserved: s.size, Used: s.size - max(0, left), Lease: true}
	return part, s.began.Add(wire.Milliseconds(s.lastUse.Load())), true
}

// settleLeaseFor is how long a settlement may take. Later, the permits come back anyway.
const settleLeaseFor = 5 * time.Second

// NoteAsked notes the outcome of a call that asked Redis. If the limiter is used so often that a lease is
// worth it, a goroutine takes one.
func (l *Limiter) NoteAsked(wanted Want, v Result) {
	ls := &l.engine.leases
	if ls.leasing.Longest == 0 {
		return
	}
	d := ls.of(l)
	if d == nil {
		d = ls.enter(l.Hash)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.current.Load()
	if !v.OK {
		// Others have used up what is left, or the permits are more than the lease has.
		if s != nil && d.current.CompareAndSwap(s, nil) {
			d.settle(s)
		}
		return
	}
	now := time.Now()
	if now.Sub(d.since) > max(d.lasts, ShortestLease) {
		d.since, d.asked = now, 0
	}
	d.asked += wanted.Permits
	if s == nil && d.asked >= worthLeasing/2 {
		d.startTaking(l.engine.Group(l))
	}
}

// renew asks for the next lease before the current one is used up.
func (d *leased) renew(g *Group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startTaking(g)
}

// startTaking starts the goroutine that takes the next lease. Guarded by mu.
func (d *leased) startTaking(g *Group) {
	if !d.taking && d.next == nil {
		d.taking = d.leases.engine.Work(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, longestLease)
			defer cancel()
			d.takeNext(ctx, g)
		})
	}
}

// takeNext takes the next lease.
func (d *leased) takeNext(ctx context.Context, g *Group) {
	s := d.ask(ctx, g)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taking = false
	switch {
	case s == nil:
		return
	case !d.leases.open(): // under mu: close looks for leases after it has closed
		d.settle(s)
		return
	}
	// It ends also if nobody asks any more.
	time.AfterFunc(time.Until(s.began.Add(s.lasts)), func() { d.expire(s) })
	if current := d.current.Load(); current != nil && current.left.Load() > 0 {
		d.next = s
	} else {
		d.current.Store(s)
		d.asked = 0
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

// ask takes a lease from Redis, nil if it gets none.
func (d *leased) ask(ctx context.Context, g *Group) *lease {
	l := g.limiters[0]
	may := d.leases.engine.config.MayLease
	if g.hasLine() || !d.leases.open() || may != nil && !may(l) || !d.learn(ctx, l) {
		return nil
	}
	size := d.size()
	if size < worthLeasing {
		return nil
	}
	s := &lease{of: d, group: g, given: l.givenText(), size: size, began: time.Now()}
	s.beganWall = s.began.UnixNano()
	d.mu.Lock()
	s.lasts = d.lasts
	d.mu.Unlock()
	results, err := g.Acquire(ctx, []int64{size}, Want{Permits: size, Numbers: true, Reserve: true, Lease: s.lasts})
	if err != nil {
		return nil
	}
	s.result = results[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.said = s.result.Left, time.Now()
	if !s.result.OK {
		return nil
	}
	s.left.Store(size)
	return s
}

// learn learns what is left and how many Clients share it, unless that is known. It reports whether the
// limiter may be leased.
func (d *leased) learn(ctx context.Context, l *Limiter) bool {
	d.mu.Lock()
	said, learnt, lasts := time.Since(d.said) < longestLease, time.Since(d.learnt) < learnEvery, d.lasts
	d.mu.Unlock()
	if learnt && (said || lasts == 0) {
		return lasts > 0
	}
	v, err := l.peek(ctx)
	var peers Peers
	if err == nil && !learnt {
		peers, err = l.Peers(ctx, l.given)
	}
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left, d.said = v.Left, time.Now(); !learnt {
		d.clients, d.learnt = peers.Clients, time.Now()
	}
	d.lasts = min(d.leases.leasing.Longest, wire.Milliseconds(v.Every)/partsOfInterval, longestLease)
	if d.lasts = d.lasts.Truncate(time.Millisecond); d.lasts < ShortestLease || v.Limit < leastLeased {
		d.lasts = 0
	}
	return d.lasts > 0
}

// size returns the size of the next lease: twice what the last one used, if that was most of it, and
// otherwise a quarter more; and at most this Client's part of the share of what is left.
func (d *leased) size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	used, exhausted := max(d.used, d.asked), d.exhausted || d.asked > d.used
	if s := d.current.Load(); s != nil {
		left := max(0, s.left.Load())
		used, exhausted = s.size-left, left < s.size/4
	}
	wanted := used + max(1, used/4)
	if exhausted {
		wanted = 2 * used
	}
	share := float64(d.left) * d.leases.leasing.Share / float64(max(1, d.clients))
	return min(wanted, int64(share), wire.MaxPermits)
}

// ReturnToLease gives permits back to the lease that handed them out, and reports whether it took them.
func (l *Limiter) ReturnToLease(permits int64) bool {
	ls := &l.engine.leases
	if ls.leasing.Longest == 0 {
		return false
	}
	d := ls.of(l)
	if d == nil {
		return false
	}
	s := d.current.Load()
	return s != nil && s.giveBack(permits)
}

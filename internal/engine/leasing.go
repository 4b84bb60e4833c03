package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// NoteAsked notes the outcome of a call that asked Redis. If the limiter is used often enough for a
// lease, a goroutine takes one.
func (l *Limiter) NoteAsked(leasing Leasing, wanted Want, v Result) {
	ls := &l.engine.leases
	d := ls.of(l)
	switch {
	case d == nil && !ls.open():
		return
	case d == nil:
		d = ls.enter(l.Hash)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leasing = leasing
	s := d.current.Load()
	if !v.OK {
		// Other clients have used up what was left, or the permits are more than the lease has.
		d.endAll()
		d.noteScarce()
		return
	}
	now, within := time.Now(), d.lasts
	if wanted.Numbers {
		d.left, d.said = v.Left, now
	}
	if within == 0 { // not known, or not leased
		if now.Sub(d.learnt) < learnEvery {
			return
		}
		within = min(leasing.Longest, longestLease)
	}
	if now.Sub(d.since) > within {
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
	if !d.taking && d.next == nil && time.Now().After(d.scarce) && d.leases.open() {
		d.taking = d.leases.work(func(ctx context.Context) {
			s := d.ask(ctx, g)
			d.store(s, s != nil && g.hasLine())
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
	if line || !d.leases.open() { // under mu: close looks for leases after that
		d.settle(s)
		return
	}
	// It also ends if no caller asks any more.
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

// ask takes a lease from Redis, nil if it gets none. It waits for the reply, however late: what was taken has
// to be given back.
func (d *leased) ask(ctx context.Context, g *Group) *lease {
	l := g.limiters[0]
	config := &d.leases.engine.config
	if g.hasLine() || !config.MayLease(l) || !d.learn(ctx, l) || !d.leases.open() {
		return nil
	}
	size := d.size()
	if size < worthLeasing {
		return nil
	}
	s := &lease{group: g, given: l.givenText(), size: size, began: time.Now()}
	s.beganWall = s.began.UnixNano()
	d.mu.Lock()
	s.lasts = d.lasts
	d.mu.Unlock()
	wanted := Want{Permits: size, Numbers: true, Reserve: true, Lease: s.lasts}
	results, err := g.Acquire(ctx, []int64{size}, wanted)
	if d.leases.note(err); err != nil {
		return nil
	}
	s.result = results[0]
	s.result.Replaced = false // all callers of the lease get this result
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.said = s.result.Left, time.Now()
	if !s.result.OK {
		d.noteScarce()
		return nil
	}
	s.left.Store(size)
	d.note(s, size)
	d.learnOf(s.result.Limit, s.result.Every)
	// The rate has changed, or Redis was silent meanwhile and does not know what was granted without it.
	if d.lasts < s.lasts || !config.MayLease(l) {
		d.settle(s)
		return nil
	}
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
	ctx, cancel := context.WithTimeout(ctx, longestLease)
	defer cancel()
	p, err := l.Peers(ctx, l.given)
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.clients = p.Left, p.Clients
	d.said, d.learnt = time.Now(), time.Now()
	d.learnOf(p.Rate, p.Interval.Milliseconds())
	return d.lasts > 0
}

// learnOf learns how long leases last, by a rate and its interval in ms. Guarded by mu.
func (d *leased) learnOf(rate, interval int64) {
	d.lasts = min(d.leasing.Longest, wire.Milliseconds(interval)/partsOfInterval, longestLease)
	if d.lasts = d.lasts.Truncate(time.Millisecond); d.lasts < shortestLease || rate < leastLeased {
		d.lasts = 0
	}
}

// size returns the size of the next lease: twice what the last one used, if that was most of it, and
// otherwise a quarter more; and at most this Client's part of the share of what is left.
func (d *leased) size() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.ended) > d.lasts { // that use is over
		d.used, d.exhausted = 0, false
	}
	used, exhausted := max(d.used, d.asked), d.exhausted || d.asked > d.used
	if s := d.current.Load(); s != nil {
		left := max(0, s.left.Load())
		used, exhausted = s.size-left, left < s.size/4
	}
	wanted := used + max(1, used/4)
	if exhausted {
		wanted = 2 * used
	}
	share := float64(d.left) * cmp.Or(d.leasing.Share, defaultShare) / float64(max(1, d.clients))
	return min(wanted, int64(share), wire.MaxPermits)
}

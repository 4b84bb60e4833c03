package engine

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// settle ends a lease, and settles it in the background. Guarded by mu.
func (d *leased) settle(s *lease) {
	settle := d.end(s)
	if settle == nil {
		return
	}
	under := []*pending{&d.settling}
	if d.used < s.size {
		under = append(under, &d.freeing)
	}
	for _, p := range under {
		p.begin()
	}
	working := d.leases.work(func(ctx context.Context) {
		err := settle(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, p := range under {
			p.end()
		}
		if err != nil {
			d.leases.engine.withdrawals.add(&unsettled{s, settle})
		}
	})
	if !working { // too late: the permits come back an interval after the end of the lease
		for _, p := range under {
			p.end()
		}
	}
}

// An unsettled is an ended lease whose settlement has failed. It is tried again until its permits are back
// anyway.
type unsettled struct {
	*lease
	settle func(ctx context.Context) error
}

// withdraw settles the lease in the background.
func (u *unsettled) withdraw() bool {
	e := u.group.engine
	return e.leases.work(func(ctx context.Context) {
		err := u.settle(ctx)
		e.withdrawals.noteOutcome(err == nil)
		if err != nil && time.Since(u.began) < u.lasts+wire.Milliseconds(u.result.Every) {
			e.withdrawals.add(u)
		}
	})
}

// end ends a lease, and returns the function that settles it; nil if there is none, or it has ended before.
// If it cannot be settled, its permits come back an interval after its end. Guarded by mu.
func (d *leased) end(s *lease) (settle func(context.Context) error) {
	if s == nil {
		return nil
	}
	part, lastUse, open := s.close()
	if !open {
		return nil
	}
	d.used, d.exhausted, d.ended = part.Used, part.Reserved-part.Used < s.size/4, time.Now()
	d.note(s, -s.size)
	d.note(s, d.used) // only now: from the end on they count for an interval
	settlement := s.group.Settlement(nil)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, settleLeaseFor)
		defer cancel()
		part.Idle = max(0, time.Since(lastUse))
		settlement.parts = []Part{part} // anew, because a call that was left may still read the last one
		_, err := settlement.Settle(ctx, false)
		d.leases.note(err)
		return err
	}
}

// close ends a lease, and returns what remains to be settled, when its permits were last used, and
// whether the lease was open.
func (s *lease) close() (part Part, lastUse time.Time, open bool) {
	left := s.left.Swap(closedLease)
	if left <= closedLease/2 {
		return Part{}, time.Time{}, false
	}
	part = Part{Records: s.result.Records, Reserved: s.size, Used: s.size - max(0, left), Lease: true}
	return part, s.began.Add(wire.Milliseconds(s.lastUse.Load())), true
}

// settleLeaseFor is how long an attempt may take.
const settleLeaseFor = 5 * time.Second

// note reports what a lease took or gave back.
func (d *leased) note(s *lease, permits int64) {
	if f := d.leases.engine.config.NoteLease; f != nil && permits != 0 {
		f(s.group.limiters[0], permits)
	}
}

// giveBack takes back permits that the lease has handed out, if it has not ended, and returns how many.
func (s *lease) giveBack(permits int64) int64 {
	for {
		left := s.left.Load()
		back := min(permits, s.size-left)
		if left < 0 || back <= 0 || time.Since(s.began) >= s.lasts {
			return 0
		}
		if s.left.CompareAndSwap(left, left+back) {
			return back
		}
	}
}

// ReturnToLease gives permits back to the lease that handed them out, and returns how many remain. If a
// lease is being settled, it waits for the settlement or the end of ctx: until then Redis would not find
// the permits.
func (l *Limiter) ReturnToLease(ctx context.Context, permits int64) (rest int64) {
	d := l.engine.leases.of(l)
	if d == nil {
		return permits
	}
	if s := d.current.Load(); s != nil {
		permits -= s.giveBack(permits)
	}
	d.mu.Lock()
	settling := d.settling
	d.mu.Unlock()
	if permits > 0 && settling.n > 0 {
		select {
		case <-settling.done:
		case <-ctx.Done():
		}
	}
	return permits
}

// endAll ends the lease and the next one. Guarded by mu.
func (d *leased) endAll() {
	for _, s := range []*lease{d.current.Swap(nil), d.next} {
		d.settle(s)
	}
	d.next = nil
}

// noteScarce notes that Redis has refused permits. Callers compete for them, here and elsewhere, and a lease
// would take at once what Java gets permit by permit: its share was 0.12 to 0.29 of its due. Where callers
// compete, the next refusal comes within a second. Guarded by mu.
func (d *leased) noteScarce() { d.scarce = time.Now().Add(longestLease) }

// endLeases ends the leases of a limiter, so that their permits go to callers for which Redis does not
// have enough. The channel is closed when Redis has them; it is nil if no permits are under way.
func (l *Limiter) endLeases() (freed <-chan struct{}) {
	d := l.engine.leases.of(l)
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endAll(); d.freeing.n == 0 {
		return nil
	}
	return d.freeing.done
}

// freeLeases ends the leases of limiters if they hold permits that Redis has refused to a call, and reports
// whether Redis got them within the call's budget, which it reduces.
func (e *Engine) freeLeases(ctx context.Context, wanted *Want, limiters ...*Limiter) bool {
	var freed []<-chan struct{}
	for _, l := range limiters {
		if c := l.endLeases(); c != nil {
			freed = append(freed, c)
		}
	}
	if len(freed) == 0 {
		return false
	}
	began := time.Now()
	if wanted.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wanted.Budget)
		defer cancel()
	}
	for _, c := range freed {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	if wanted.Budget > 0 {
		wanted.Budget = max(time.Nanosecond, wanted.Budget-time.Since(began))
	}
	return true
}

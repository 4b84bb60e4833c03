package ahead

import (
	"context"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/engine"
	"github.com/redisson-go/rratelimiter/internal/request"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	settleFor   = 5 * time.Second // how long an attempt may take
	settleQuiet = time.Second / 2 // how long Close waits for a silent Redis
)

// Close implements engine.Upper: it ends all leases, and gives back what they have left, until Redis has
// replied to none for settleQuiet, and for settleFor at most.
func (a *Ahead) Close() {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	silence := time.AfterFunc(settleQuiet, cancel)
	a.silence.Store(silence)
	defer silence.Stop()
	a.byHash.Range(func(_, s any) bool {
		d := &s.(*state).leased
		d.mu.Lock()
		defer d.mu.Unlock()
		d.endAll()
		return true
	})
	ours := func(job back.Job) bool {
		_, ok := job.(*unsettled)
		return ok
	}
	for _, job := range a.engine.Back().Take(ours) {
		job.TakeBack()
	}
	a.wait(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

// wait waits until no job is under way, or ctx ends. A job that ends may have begun another one.
func (a *Ahead) wait(ctx context.Context) {
	for {
		a.mu.RLock()
		asking := a.asking
		a.mu.RUnlock()
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

// noteReply records the outcome of a job that has asked Redis: Close goes on while Redis replies, also to
// jobs that were under way before.
func (a *Ahead) noteReply(err error) {
	if silence := a.silence.Load(); silence != nil && err == nil {
		silence.Reset(settleQuiet)
	}
}

// work runs a job that asks Redis, and reports whether it does. Close waits for the job.
func (a *Ahead) work(job func(ctx context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	started := a.engine.Work(func(ctx context.Context) {
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.asking.end()
		}()
		job(ctx)
	})
	if started {
		a.asking.begin()
	}
	return started
}

// open reports whether leases may be taken.
func (a *Ahead) open() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return !a.closing
}

// settle ends a lease, and settles it in the background. Guarded by mu.
func (d *leased) settle(s *lease) {
	settle := d.end(s)
	if settle == nil {
		return
	}
	under := []*pending{&d.settling}
	if d.demand.used < s.size {
		under = append(under, &d.freeing)
	}
	for _, p := range under {
		p.begin()
	}
	working := d.ahead.work(func(ctx context.Context) {
		err := settle(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, p := range under {
			p.end()
		}
		if err != nil {
			d.ahead.engine.Back().Add(&unsettled{s, d.ahead, settle})
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
	ahead  *Ahead
	settle func(ctx context.Context) error
}

// TakeBack settles the lease in the background.
func (u *unsettled) TakeBack() bool {
	return u.ahead.work(func(ctx context.Context) {
		err := u.settle(ctx)
		u.ahead.engine.Back().Note(err == nil)
		if err != nil && time.Since(u.began) < u.lasts+wire.Milliseconds(u.result.Every) {
			u.ahead.engine.Back().Add(u)
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
	d.demand.noteEnded(part.Used, s.size, time.Now())
	d.note(s, -s.size)
	d.note(s, part.Used) // only now: from the end on they count for an interval
	settlement := s.group.Settlement()
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, settleFor)
		defer cancel()
		part.Idle = max(0, time.Since(lastUse))
		_, err := settlement.Settle(ctx, []engine.Part{part}, false)
		d.ahead.noteReply(err)
		return err
	}
}

// close ends a lease, and returns what remains to be settled, when its permits were last used, and
// whether the lease was open.
func (s *lease) close() (part engine.Part, lastUse time.Time, open bool) {
	left := s.left.Swap(closedLease)
	if left <= closedLease/2 {
		return engine.Part{}, time.Time{}, false
	}
	part = engine.Part{Records: s.result.Records, Reserved: s.size, Used: s.size - max(0, left), Lease: true}
	return part, s.began.Add(wire.Milliseconds(s.lastUse.Load())), true
}

// note reports what a lease took or gave back.
func (d *leased) note(s *lease, permits int64) {
	if permits != 0 {
		d.ahead.NoteLease(s.group.Limiters()[0], permits)
	}
}

// giveBack takes back permits that the lease has handed out, and returns how many: until it is settled, also
// when its time is over, because a release in Redis leaves its record alone.
func (s *lease) giveBack(permits int64) int64 {
	for {
		left := s.left.Load()
		back := min(permits, s.size-left)
		if left < 0 || back <= 0 {
			return 0
		}
		if s.left.CompareAndSwap(left, left+back) {
			return back
		}
	}
}

// Return gives permits back to the lease that handed them out, and returns how many remain. If a lease is
// being settled, it waits for the settlement or the end of ctx: until then Redis would not find the permits.
func (a *Ahead) Return(ctx context.Context, l *engine.Limiter, permits int64) (rest int64) {
	found := a.of(l.Hash)
	if found == nil {
		return permits
	}
	d := &found.leased
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

// endLeases ends the leases of a limiter, so that their permits go to callers for which Redis does not
// have enough. The channel is closed when Redis has them; it is nil if no permits are under way.
func (d *leased) endLeases() (freed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endAll(); d.freeing.n == 0 {
		return nil
	}
	return d.freeing.done
}

// Free implements engine.Upper: it ends the leases of limiters if they hold permits that Redis has refused
// to a call, and reports whether Redis got them within the call's budget. It returns the rest of that.
func (a *Ahead) Free(
	ctx context.Context, budget time.Duration, limiters ...*request.Target,
) (rest time.Duration, done bool) {
	var freed []<-chan struct{}
	for _, l := range limiters {
		if s := a.of(l.Hash); s != nil {
			if c := s.endLeases(); c != nil {
				freed = append(freed, c)
			}
		}
	}
	if len(freed) == 0 {
		return budget, false
	}
	began := time.Now()
	if budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
	}
	for _, c := range freed {
		select {
		case <-c:
		case <-ctx.Done():
			return budget, false
		}
	}
	if budget > 0 {
		budget = max(time.Nanosecond, budget-time.Since(began))
	}
	return budget, true
}

package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxWithdrawals is how many limiters of an Engine have permits to be taken
	// back later: some 5 MB. Beyond them, permits come back when their interval
	// is over.
	maxWithdrawals = 10_000

	// A withdrawal is given up after withdrawFor. If more than 8 Engines use a
	// limiter, it may forget a session after a minute (sessionLife). In both
	// cases the permits come back when their interval is over.
	withdrawFor = time.Hour

	// While Redis is well, up to withdrawAtOnce withdrawals are tried every
	// withdrawTick: 2,560 a second, a small part of its capacity. Otherwise a
	// single one is tried, withdrawPause after the last failure, or
	// withdrawUnanswered after one without any outcome. A Redis that has just
	// come back is busy enough.
	withdrawTick       = 100 * time.Millisecond
	withdrawAtOnce     = 256
	withdrawPause      = time.Second
	withdrawUnanswered = 5 * time.Second
)

// unowned are permits that Redis may have granted to callers that have left. They
// are to be taken back. Guarded by the queue's mu.
type unowned struct {
	withdrawal      *withdrawal // nil if there is none
	waitingForRedis bool        // the withdrawal is in withdrawals, until Redis is well
}

// ready reports whether a withdrawal is to be sent now.
func (u *unowned) ready() bool { return u.withdrawal != nil && !u.waitingForRedis }

// noteAmbiguous records that the grants of a request are unknown. An earlier
// withdrawal stays as it is: it covers all requests after its number, and so this
// one.
func (u *unowned) noteAmbiguous(req *request) {
	if u.withdrawal == nil && !req.isRelease() {
		u.withdrawal = &withdrawal{req.number - 1, keptAll, time.Now(), req.givenRate != nil}
	}
}

// A withdrawer has permits to be taken back: a queue, a call of a Group, or a lease.
type withdrawer interface {
	// withdraw takes them back, and reports whether there were any left.
	withdraw() bool
}

// withdrawals holds the withdrawers whose request has failed. The next request of
// a limiter takes its permits back in any case; one goroutine does so for
// limiters that get no further request. It runs while there are withdrawers.
type withdrawals struct {
	engine *Engine

	mu                sync.Mutex
	waiting           []withdrawer // guarded by mu, as all below
	running           bool         // the goroutine runs
	succeeded, failed int          // requests that take back, since outcomes was called
}

// add puts a withdrawer on the list, and reports whether there was room.
func (d *withdrawals) add(w withdrawer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= maxWithdrawals {
		return false
	}
	if !d.running && !d.engine.Go(d.withdrawLater) {
		return false
	}
	// d.mu is held from the check of running to here, so that two callers never
	// start two goroutines.
	d.running = true
	d.waiting = append(d.waiting, w)
	return true
}

// noteOutcome counts a request that took permits back.
func (d *withdrawals) noteOutcome(well bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if well {
		d.succeeded++
	} else {
		d.failed++
	}
}

// outcomes returns how many requests succeeded and failed since the last call.
func (d *withdrawals) outcomes() (good, bad int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	good, bad, d.succeeded, d.failed = d.succeeded, d.failed, 0, 0
	return good, bad
}

// takeUnsettled takes the leases off the list.
func (d *withdrawals) takeUnsettled() (leases []*unsettled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = slices.DeleteFunc(d.waiting, func(w withdrawer) bool {
		u, ok := w.(*unsettled)
		if ok {
			leases = append(leases, u)
		}
		return ok
	})
	return leases
}

// next takes the first withdrawer off the list. It returns nil if there is none,
// and then the goroutine ends: under mu, so that no withdrawer is added to a list
// without a goroutine.
func (d *withdrawals) next() withdrawer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running = len(d.waiting) > 0; !d.running {
		return nil
	}
	w := d.waiting[0]
	d.waiting = d.waiting[1:]
	return w
}

// withdrawLater makes the withdrawers take their permits back. It doubles their
// number while Redis is well, and starts again from one after a failure.
func (d *withdrawals) withdrawLater(ctx context.Context) {
	ticker := time.NewTicker(withdrawTick)
	defer ticker.Stop()
	var asked, next time.Time // asked: when the requests without an outcome were sent
	for n := 1; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		switch good, bad := d.outcomes(); {
		case bad > 0:
			n, asked, next = 1, time.Time{}, now.Add(withdrawPause)
		case good > 0:
			n = min(2*n, withdrawAtOnce)
		case now.Sub(asked) < withdrawUnanswered:
			continue
		default:
			n = 1
		}
		if now.Before(next) {
			continue
		}
		asked = time.Time{}
		for sent := 0; sent < n; {
			w := d.next()
			if w == nil {
				return
			}
			// A queue whose permits were already taken back sends nothing, and so
			// has no outcome to wait for.
			if w.withdraw() {
				asked, sent = now, sent+1
			}
		}
	}
}

// move gives a renamed limiter the withdrawal of its old name, because the
// session has moved with the hash.
func (d *withdrawals) move(from, to *Limiter) {
	old := d.engine.queues.of(from)
	if old == nil {
		return
	}
	old.mu.Lock()
	var w *withdrawal
	if old.inUse && old.limiter.Hash == from.Hash { // it may be retired and reused for another limiter
		w, old.unowned.withdrawal = old.unowned.withdrawal, nil
	}
	old.mu.Unlock()
	if w != nil {
		d.engine.queues.enter(to).inherit(w)
	}
}

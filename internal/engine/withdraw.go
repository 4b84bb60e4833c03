package engine

import (
	"context"
	"sync"
	"time"
)

const (
	// maxWithdrawals is how many limiters of an Engine wait until permits can be taken
	// back: some 5 MB. Beyond them, permits come back when their interval is over.
	maxWithdrawals = 10_000

	// A withdrawal that could not be done within withdrawFor is given up. Where more
	// than 8 Engines use a limiter, its session may be forgotten after a minute
	// (sessionLife). In both cases the permits come back when their interval is over.
	withdrawFor = time.Hour

	// Every withdrawTick, up to withdrawAtOnce withdrawals are tried while Redis is
	// well: 2,560 a second, a small part of what it can do. Otherwise a single one is
	// tried, withdrawPause after the one before has failed, or withdrawHangs after one
	// without any outcome.
	withdrawTick       = 100 * time.Millisecond
	withdrawAtOnce     = 256
	withdrawPause      = time.Second
	withdrawUnanswered = 5 * time.Second
)

// unowned are permits that nobody holds, to be taken back. Guarded by the queue's mu.
type unowned struct {
	withdrawal      *withdrawal // nil if there are none
	waitingForRedis bool        // they wait until Redis is well
}

// due reports whether they are to be taken back now.
func (u *unowned) ready() bool { return u.withdrawal != nil && !u.waitingForRedis }

// ambiguous notes that it is unknown what a request was granted.
func (u *unowned) noteAmbiguous(req *request) {
	if u.withdrawal == nil && !req.isRelease() {
		u.withdrawal = &withdrawal{req.number - 1, keptAll, time.Now()}
	}
}

// A withdrawer has permits to be taken back: a queue, or a call of a Group.
type withdrawer interface {
	// withdraw takes them back, and reports whether there were any left.
	withdraw() bool
}

// withdrawals are those whose permits could not be taken back. The permits of a
// limiter that is used go back with its next request. For the others there is one
// goroutine, as long as there are any.
type withdrawals struct {
	engine *Engine

	mu                sync.Mutex
	waiting           []withdrawer // guarded by mu, as all of it is
	running           bool         // the goroutine
	succeeded, failed int          // requests that take back, since it last counted them
}

// park puts one on the list, and reports whether there is room for it.
func (d *withdrawals) add(w withdrawer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= maxWithdrawals {
		return false
	}
	if !d.running && !d.engine.Go(d.withdrawLater) {
		return false
	}
	d.running = true
	d.waiting = append(d.waiting, w)
	return true
}

// tried notes the outcome of a request that takes back.
func (d *withdrawals) noteOutcome(well bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if well {
		d.succeeded++
	} else {
		d.failed++
	}
}

// outcomes returns how many requests went well and badly since it was last called.
func (d *withdrawals) outcomes() (good, bad int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	good, bad, d.succeeded, d.failed = d.succeeded, d.failed, 0, 0
	return good, bad
}

// next returns the first one, nil if there is none. Then the goroutine ends.
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

// withdrawLater has those that are parked take back what nobody holds: the longer
// Redis is well, the more of them at a time.
func (d *withdrawals) withdrawLater(ctx context.Context) {
	ticker := time.NewTicker(withdrawTick)
	defer ticker.Stop()
	var asked, next time.Time // asked: when requests were sent that have no outcome yet
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
			if w.withdraw() {
				asked, sent = now, sent+1
			}
		}
	}
}

// move gives a renamed limiter the withdrawal of its old name: the session has moved with
// the hash.
func (d *withdrawals) move(from, to *Limiter) {
	old := d.engine.queues.of(from)
	if old == nil {
		return
	}
	old.mu.Lock()
	var w *withdrawal
	if old.inUse && old.limiter.Hash == from.Hash { // it may be another limiter's by now
		w, old.unowned.withdrawal = old.unowned.withdrawal, nil
	}
	old.mu.Unlock()
	if w != nil {
		d.engine.queues.enter(to).inherit(w)
	}
}

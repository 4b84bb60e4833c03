// Package back keeps a list of jobs that return unowned permits: those of requests without a reply, of
// callers that have left, and of leases that could not be settled. It does not depend on limiters.
package back

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// GiveUpAfter is how long a Job is tried. If more than 8 Engines use a limiter, it may forget a session
	// after a minute (SessionLife of internal/request). In both cases the permits come back when their
	// interval is over.
	GiveUpAfter = time.Hour

	// Tick is the time between two rounds.
	Tick = 100 * time.Millisecond

	// maxJobs bounds the list: some 5 MB. Beyond it, permits come back when their interval is over.
	maxJobs = 10_000

	// While Redis is well, up to atOnce jobs are tried every Tick: 2,560 a second, a small part of its
	// capacity. Otherwise a single one is tried, pauseAfter the last failure, or unanswered after a try
	// without an outcome. A Redis that has just come back is busy enough.
	atOnce     = 256
	pauseAfter = time.Second
	unanswered = 5 * time.Second
)

// A Job takes permits back.
type Job interface {
	// TakeBack does so in the background, and reports whether there were any left.
	TakeBack() bool
}

// Later carries out a job whose permits are unowned since then, after as long as it was tried.
func Later(job Job, since time.Time) {
	time.AfterFunc(max(Tick, time.Since(since)), func() { job.TakeBack() })
}

// A List holds the jobs that have failed. The next request of a limiter takes its permits back in any case;
// one goroutine does so for limiters that get no further request. It runs while there are jobs.
//
// Its lock is taken last, except for the one that start takes: a List calls nothing else while it holds it.
type List struct {
	start func(func(ctx context.Context)) bool // runs a goroutine, unless the Engine is closed

	mu                sync.Mutex
	waiting           []Job // guarded by mu, as all below
	running           bool  // the goroutine runs
	succeeded, failed int   // requests that take permits back, since outcomes was last called
}

// NewList returns an empty List. start runs its goroutine, and reports whether it does.
func NewList(start func(func(ctx context.Context)) bool) *List { return &List{start: start} }

// Add puts a job on the list, and reports whether there was room.
func (l *List) Add(job Job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxJobs {
		return false
	}
	if !l.running && !l.start(l.run) {
		return false
	}
	// mu is held from the check of running to here, so that two callers never start two goroutines.
	l.running = true
	l.waiting = append(l.waiting, job)
	return true
}

// Note counts a request that took permits back, or failed to.
func (l *List) Note(well bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if well {
		l.succeeded++
	} else {
		l.failed++
	}
}

// outcomes returns how many requests succeeded and failed since the last call.
func (l *List) outcomes() (good, bad int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	good, bad, l.succeeded, l.failed = l.succeeded, l.failed, 0, 0
	return good, bad
}

// Take removes the jobs that mine accepts.
func (l *List) Take(mine func(Job) bool) (taken []Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(job Job) bool {
		if !mine(job) {
			return false
		}
		taken = append(taken, job)
		return true
	})
	return taken
}

// next takes the first job off the list. It returns nil if there is none, and then the goroutine ends: under
// mu, so that no job is added to a list without a goroutine.
func (l *List) next() Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running = len(l.waiting) > 0; !l.running {
		return nil
	}
	job := l.waiting[0]
	l.waiting = l.waiting[1:]
	return job
}

// run tries the jobs. It doubles their number while Redis is well, and starts again from one after a
// failure.
func (l *List) run(ctx context.Context) {
	ticker := time.NewTicker(Tick)
	defer ticker.Stop()
	var asked, next time.Time // asked: when the requests without an outcome were sent
	for n := 1; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		switch good, bad := l.outcomes(); {
		case bad > 0:
			n, asked, next = 1, time.Time{}, now.Add(pauseAfter)
		case good > 0:
			n = min(2*n, atOnce)
		case now.Sub(asked) < unanswered:
			continue
		default:
			n = 1
		}
		if now.Before(next) {
			continue
		}
		asked = time.Time{}
		for sent := 0; sent < n; {
			job := l.next()
			if job == nil {
				return
			}
			// A queue whose permits were already taken back sends nothing, and so
			// has no outcome to wait for.
			if job.TakeBack() {
				asked, sent = now, sent+1
			}
		}
	}
}

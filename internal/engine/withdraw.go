package engine

import (
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
)

// unowned are permits that Redis may have granted to callers that have left. They
// are to be taken back. Guarded by the queue's mu.
type unowned struct {
	withdrawal      *withdrawal // nil if there is none
	waitingForRedis bool        // the withdrawal is in Engine.back, until Redis is well
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

// A withdrawal names unowned permits by the requests of the session that may have
// been granted them: all requests after a number, whose replies never came, and
// the request with that number beyond the permits that are kept, because some of
// its callers have left. It goes back with the next request
// (scripts/release.lua).
//
// A number names the permits exactly. A count could not, because it is unknown
// whether Redis carried the requests out.
type withdrawal struct {
	after, kept int64
	since       time.Time
	creates     bool // the request sets a rate where none is set
}

// mayCome reports whether the request may still be carried out although the limiter does not
// exist: it has been delayed, and will create the limiter. After sessionLife, what it takes
// comes back when its interval is over.
func (w *withdrawal) mayCome(err error) bool {
	return w.creates && errors.Is(err, ErrNotInitialized) && time.Since(w.since) < sessionLife
}

// again schedules another attempt of the job, after the time that it has spent trying.
func (w *withdrawal) again(of back.Job) {
	time.AfterFunc(max(back.Tick, time.Since(w.since)), func() { of.TakeBack() })
}

// keptAll lets a request keep all that it was granted: it is far more than a request
// takes.
const keptAll = 1 << 52

// moveWithdrawal gives a renamed limiter the withdrawal of its old name, because the
// session has moved with the hash.
func (e *Engine) moveWithdrawal(from, to *Limiter) {
	old := e.queues.of(from)
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
		e.queues.enter(to).inherit(w)
	}
}

package queue

import (
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/request"
)

// unowned are permits that Redis may have granted to callers that have left. They
// are to be taken back. Guarded by the queue's mu.
type unowned struct {
	withdrawal    *request.Withdrawal // nil if there is none
	waitsForRedis bool                // the withdrawal is in Config.Back, until Redis is well
}

// note records that the grants of a request are unknown. An earlier
// withdrawal stays as it is: it covers all requests after its number, and so this
// one.
func (u *unowned) note(req *request.Request) {
	if u.withdrawal == nil && !req.IsRelease() {
		u.withdrawal = req.All()
	}
}

// noteUnowned records the permits to be taken back after a request: those beyond
// the kept ones, or all of them if the outcome is unknown. Guarded by mu.
func (q *queue) noteUnowned(req *request.Request, err error, kept, unclaimed int64) {
	u := &q.unowned
	settled := err == nil || errors.Is(err, failure.ErrNotInitialized)
	late := u.withdrawal.MayCome(err)
	switch {
	case late:
	case settled:
		u.withdrawal = nil
	case req.Ambiguous():
		u.note(req)
	}
	if err == nil && unclaimed > 0 && !req.IsRelease() {
		u.withdrawal = req.Beyond(kept)
	}
	if req.Withdraws() {
		q.registry.Back.Note(settled)
	}
	switch w := u.withdrawal; {
	case settled && !late || w == nil || u.waitsForRedis:
	case late:
		u.waitsForRedis = true
		back.Later(q, w.Since)
	default: // Redis has failed
		u.waitsForRedis = q.registry.Back.Add(q)
		if !u.waitsForRedis || time.Since(w.Since) > back.GiveUpAfter {
			u.withdrawal = nil
		}
	}
}

// TakeBack takes back unowned permits, and reports whether any were left: a caller's
// request may already have taken them back.
func (q *queue) TakeBack() bool {
	q.lock()
	defer q.unlock()
	q.unowned.waitsForRedis = false
	q.start()
	return q.unowned.withdrawal != nil
}

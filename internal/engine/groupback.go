package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/back"
)

// A groupWithdrawal has the unowned permits of a Group call.
type groupWithdrawal struct {
	engine     *Engine
	sessions   *sessions // the pool of session
	session    any
	withdrawal *withdrawal
	remaining  []*Limiter // limiters that have not confirmed it
	kept       []int64    // permits that callers hold, in these; nil if they hold none
	reserved   []string   // the records of a reservation in these; nil if it is none
}

// withdraw gives back the permits that a call may have taken, except those of callers that are still there.
func (call *groupCall) withdraw(claimed int64) {
	back := &withdrawal{after: call.number - 1, kept: keptAll, since: call.start}
	w := &groupWithdrawal{
		engine: call.group.engine, sessions: call.sessions, session: call.session, withdrawal: back,
		remaining: call.group.limiters, reserved: call.reserved,
	}
	if claimed > 0 && call.err == nil {
		back.after = call.number
		for _, n := range call.permits {
			w.kept = append(w.kept, n*claimed)
		}
	}
	w.TakeBack()
}

// TakeBack sends the remaining requests in the background.
func (w *groupWithdrawal) TakeBack() bool { return w.engine.Work(w.run) }

// run sends the remaining requests. After the last one it frees the session.
func (w *groupWithdrawal) run(ctx context.Context) {
	for len(w.remaining) > 0 {
		w.withdrawal.creates = w.remaining[0].given != nil
		if w.kept != nil {
			w.withdrawal.kept = w.kept[len(w.kept)-len(w.remaining)]
		}
		req := newRelease(w.remaining[0], 0, w.withdrawal)
		req.session = w.session
		if w.reserved != nil {
			for record := range slices.Chunk([]byte(w.reserved[0]), w.engine.config.Plain.Size()) {
				req.reserved = append(req.reserved, string(record))
			}
		}
		_, err := req.send(ctx)
		settled := err == nil || errors.Is(err, ErrNotInitialized)
		w.engine.back.Note(settled)
		if w.withdrawal.mayCome(err) {
			w.withdrawal.again(w)
			return
		}
		if !settled {
			if ctx.Err() == nil && time.Since(w.withdrawal.since) < back.GiveUpAfter {
				w.engine.back.Add(w)
			}
			return
		}
		if w.remaining = w.remaining[1:]; w.reserved != nil {
			w.reserved = w.reserved[1:]
		}
	}
	w.sessions.put(w.session)
}

package engine

// A refusal is the first refused waiter of a batch. No waiter behind it is
// served.
type refusal struct {
	*waiter
	callerLeft bool  // its caller has left meanwhile
	wait       int64 // us until its permits are there
	again      bool  // or until it may look again
}

// A batchOutcome counts the outcomes of the waiters of a batch.
type batchOutcome struct {
	toWaiters int64 // permits granted to waiting callers
	atOnce    int64 // permits granted to callers that do not wait
	unclaimed int64 // permits granted to callers that have left
	refused   refusal
}

// add counts the result of a waiter.
func (o *batchOutcome) add(w *waiter, v Result, err error) {
	left := w.state == gone
	switch {
	case v.OK && left:
		o.unclaimed += w.Permits
	case v.OK && w.Waits():
		o.toWaiters += w.Permits
	case v.OK:
		o.atOnce += w.Permits
	case w.Waits() && err == nil && o.refused.waiter == nil:
		o.refused = refusal{w, left, v.Wait, v.Again}
	}
}

// covers reports whether the refusal holds for another waiter in line as well. It
// does, unless the refused caller has left and this one wants less.
func (first refusal) covers(w *waiter) bool {
	return first.waiter != nil && (!first.callerLeft || w.Permits >= first.Permits)
}

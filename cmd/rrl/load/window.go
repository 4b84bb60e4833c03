package load

import "time"

// A Window finds the most permits that were granted in any interval, in bounded memory. A grant counts in an
// interval only if its call began and ended there, so a result above the rate proves that the rate was
// exceeded. Only intervals that start at a multiple of interval/parts are looked at, so the result may be a
// little low.
type Window struct {
	start    time.Time
	interval time.Duration // less what the clocks may differ by
	part     time.Duration

	// steps[i%len] is the difference between two neighbours: the permits in the interval that starts at part
	// i, less the permits in the interval that starts one part earlier.
	steps []int64
	next  int64 // the first part whose interval is still open
	sum   int64 // permits in the interval that started one part earlier
	worst int64
}

// parts is how many parts an interval has.
const parts = 4096

// slack is how much shorter an interval may be by the clock of a caller: the limiter counts in whole ms.
const slack = 2 * time.Millisecond

// NewWindow returns the window for calls that begin at start or later.
func NewWindow(start time.Time, interval time.Duration) *Window {
	interval -= slack
	return &Window{
		start: start, interval: interval, part: max(1, interval/parts), steps: make([]int64, 4*parts),
	}
}

// checks reports whether the interval is long enough to be measured.
func (w *Window) checks() bool { return w.interval > 0 }

// Add notes a grant; a release has permits below 0. Calls are noted in about the order in which they ended.
func (w *Window) Add(begin, end time.Time, permits int64) {
	if !w.checks() {
		return
	}
	from, to := begin.Sub(w.start), end.Sub(w.start)
	w.advance(int64((to - 2*w.interval) / w.part))
	// The intervals that start after to - interval and no later than from.
	first := max(w.next, int64((to-w.interval)/w.part)+1)
	if to < w.interval {
		first = max(w.next, 0)
	}
	last := int64(from / w.part)
	if last < first {
		return // the call took longer than the interval
	}
	w.steps[first%int64(len(w.steps))] += permits
	w.steps[(last+1)%int64(len(w.steps))] -= permits
}

// advance closes the intervals that start before a part.
func (w *Window) advance(to int64) {
	for n := 0; w.next < to && n < len(w.steps); n++ {
		step := &w.steps[w.next%int64(len(w.steps))]
		w.sum += *step
		*step = 0
		w.worst = max(w.worst, w.sum)
		w.next++
	}
	w.next = max(w.next, to) // after a pause longer than all steps, which are empty then
}

// Most returns the most permits in an interval.
func (w *Window) Most() int64 {
	if w.checks() {
		w.advance(w.next + int64(len(w.steps)))
	}
	return w.worst
}

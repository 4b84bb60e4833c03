// Package grants checks the grants of callers against the limit. Each caller
// notes its grants in a [Log]: how many permits, when the call was started and when
// it was answered. The grant happened somewhere in between, at an unknown moment.
// So [Limit.Worst] counts only what must lie within one interval, wherever in its
// call each grant happened: it reports no false violations.
//
//	var log grants.Log
//	log.Add(grants.Entry{Who: "Go 1", Start: start, End: time.Now(), Permits: 1})
//	...
//	if err := limit.Check(&log); err != nil {
//		t.Error(err)
//	}
package grants

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Entry is the grant or the release of one call.
type Entry struct {
	Who        string    // the caller; one caller has one call at a time
	Start, End time.Time // of the call
	Permits    int64     // below 0 for a release

	// Process is where the caller is. A release counts only against grants of its process:
	// it does not free permits of another process.
	Process string

	// Dated: the caller dates a grant by its own clock before it sends the request, as
	// Redisson does. The later Redis gets the request, the less of the interval is left.
	Dated bool
}

// A Loss is a span of time whose grants Redis may have forgotten: a server lost what its
// replica did not have yet, or its data were deleted. Other callers may be granted
// the same permits again, and that is no fault of a limiter.
//
// A grant that may have been made between From and To does not count in a window
// that reaches to Since or further. The zero From means: all that was before.
type Loss struct {
	From, To, Since time.Time
	Why             string
}

// A Log is what callers were granted. It is safe for concurrent use; the zero value
// is empty.
type Log struct {
	mu      sync.Mutex
	entries []Entry // guarded by mu, and so are losses
	losses  []Loss
}

// Add notes an entry. A release should be noted whether it succeeded or not, because it may
// have been carried out.
func (l *Log) Add(e Entry) {
	e.Start, e.End = e.Start.Round(0), e.End.Round(0) // those of another process have no monotonic clock
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// Lose notes a loss.
func (l *Log) Lose(loss Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = append(l.losses, loss)
}

// Entries returns all entries, ordered by their start.
func (l *Log) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := slices.Clone(l.entries)
	slices.SortFunc(entries, func(a, b Entry) int { return a.Start.Compare(b.Start) })
	return entries
}

// Losses returns a copy of the losses.
func (l *Log) Losses() []Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.losses)
}

// A Limit is the promised rate.
type Limit struct {
	Rate     int64
	Interval time.Duration
}

// Slack is how much shorter an interval may be by the clock of a caller: the limiter
// counts in whole ms, and so does the log of Java.
const Slack = 2 * time.Millisecond

// maxIntervals is how many intervals a window has, at most. Longer ones would find
// little more: the calls at their ends are a small part of them.
const maxIntervals = 8

// A Window is a span of time with the permits granted in it.
type Window struct {
	From, To  time.Time
	Intervals int64 // how many intervals the span touches
	Sum       int64 // permits granted in it, less what was given back
}

// Permits returns the permits that lie within one interval. Of those in a window of
// two intervals, at least half, rounded up, lie in one of the two.
func (w Window) Permits() int64 {
	intervals := max(1, w.Intervals)
	return (w.Sum + intervals - 1) / intervals
}

// String returns "13 permits in 480ms".
func (w Window) String() string {
	text := fmt.Sprintf("%d permits in %v", w.Sum, w.To.Sub(w.From))
	if w.Intervals > 1 {
		text += fmt.Sprintf(", which is %d in one of %d intervals", w.Permits(), w.Intervals)
	}
	return text
}

// Worst returns the window that held the most permits for certain. It is a lower
// bound of the true one:
//
//   - A grant counts in a window if its call began and ended there.
//   - A release counts against what its process was granted in each window in which it may
//     have happened.
//   - In a window that touches several intervals, only the share of one counts.
//   - A grant that is Dated counts in windows of one interval only. All of its interval
//     lies after the start of its call, so it was out until the end of such a window.
//   - The interval is shorter by slack than the promised one.
//   - Grants that a Loss explains do not count.
//
// For grants alone, whose calls took no time, the bound is exact.
func (lim Limit) Worst(l *Log, slack time.Duration) (worst Window) {
	entries, losses := l.Entries(), l.Losses()
	s := search{interval: lim.Interval - slack}
	for _, e := range entries {
		switch {
		case e.Permits > 0:
			if g := (granted{e, goneSince(e, losses)}); g.gone.IsZero() || e.End.Before(g.gone) {
				s.grants = append(s.grants, g)
			}
		case e.Permits < 0:
			s.releases = append(s.releases, e)
		}
	}
	worst.Intervals = 1
	for i := range s.grants {
		if w := s.from(i); w.Permits() > worst.Permits() {
			worst = w
		}
	}
	return worst
}

// granted is a grant that Redis may have forgotten.
type granted struct {
	Entry
	gone time.Time // from then on; zero for never
}

func goneSince(e Entry, losses []Loss) (since time.Time) {
	for _, loss := range losses {
		if e.End.Before(loss.From) || e.Start.After(loss.To) {
			continue
		}
		if since.IsZero() || loss.Since.Before(since) {
			since = loss.Since
		}
	}
	return since
}

// A search looks for the worst window.
type search struct {
	interval time.Duration
	grants   []granted // by start, and so are releases
	releases []Entry
	events   []event // reused
}

// An event changes the sum of a window that grows to its time.
type event struct {
	at      time.Time
	sum     int64
	process string
}

// from returns the worst of the windows that begin with the call of a grant.
func (s *search) from(i int) (worst Window) {
	from := s.grants[i].Start
	s.gather(i, from, from.Add(maxIntervals*s.interval))
	slices.SortFunc(s.events, func(a, b event) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return int(a.sum - b.sum) // what is given back comes first
	})
	worst = Window{From: from, To: from, Intervals: 1}
	sum, net := int64(0), map[string]int64{} // by process
	for _, e := range s.events {
		sum -= max(0, net[e.process])
		net[e.process] += e.sum
		sum += max(0, net[e.process])
		w := Window{from, e.at, 1 + int64(e.at.Sub(from)/s.interval), sum}
		if w.Permits() > worst.Permits() {
			worst = w
		}
	}
	return worst
}

// gather gathers the events between two moments: from the call of grant i on.
func (s *search) gather(i int, from, end time.Time) {
	s.events = s.events[:0]
	for _, g := range s.grants[i:] {
		if !g.Start.Before(end) {
			break
		}
		gone := g.gone
		if first := from.Add(s.interval); g.Dated && (gone.IsZero() || gone.After(first)) {
			gone = first
		}
		switch {
		case !g.End.Before(end):
		case gone.IsZero():
			s.events = append(s.events, event{g.End, g.Permits, g.Process})
		case g.End.Before(gone):
			taken, back := event{g.End, g.Permits, g.Process}, event{gone, -g.Permits, g.Process}
			s.events = append(s.events, taken, back)
		}
	}
	for _, r := range s.releases {
		if r.End.Before(from) || !r.Start.Before(end) {
			continue
		}
		at := r.Start
		if at.Before(from) {
			at = from
		}
		s.events = append(s.events, event{at, r.Permits, r.Process})
	}
}

// Check returns an error if a window was over the limit. The error lists the calls in and around it.
func (lim Limit) Check(l *Log) error {
	worst := lim.Worst(l, Slack)
	if worst.Permits() <= lim.Rate {
		return nil
	}
	return fmt.Errorf("%v, the limit is %d in %v:%s", worst, lim.Rate, lim.Interval, lim.list(l, worst))
}

// list lists the calls and losses within an interval of a window, by their ms from its begin.
func (lim Limit) list(l *Log, w Window) string {
	var b strings.Builder
	from, to := w.From.Add(-lim.Interval), w.To.Add(lim.Interval)
	ms := func(t time.Time) float64 { return t.Sub(w.From).Seconds() * 1e3 }
	for _, e := range l.Entries() {
		if !e.End.Before(from) && !e.Start.After(to) {
			fmt.Fprintf(&b, "\n%8.1f to %8.1f  %s %s: %+d",
				ms(e.Start), ms(e.End), e.Process, e.Who, e.Permits)
		}
	}
	for _, loss := range l.Losses() {
		if !loss.Since.Before(from) && !loss.Since.After(to) {
			fmt.Fprintf(&b, "\n%8.1f to %8.1f  %s", ms(loss.Since), ms(loss.To), loss.Why)
		}
	}
	return b.String()
}

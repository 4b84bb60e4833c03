package grants

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// drawing is how long Porcupine looks for the order in which most grants fit. The
// picture is drawn in any case.
const drawing = 2 * time.Second

// draw draws the calls around a window that was over the limit, and returns the path
// of the file. Porcupine orders the calls that lie in the window as long as they fit
// into the limit; those beyond it are marked.
func (lim Limit) draw(l *Log, worst Window, dir string) (path string, err error) {
	file, err := os.CreateTemp(dir, "grants-*.html")
	if err != nil {
		return "", err
	}
	defer file.Close()
	var ops []porcupine.Operation
	var who []string
	from, to := worst.From.Add(-lim.Interval), worst.To.Add(lim.Interval)
	losses := l.Losses()
	for _, e := range l.Entries() {
		if e.End.Before(from) || e.Start.After(to) {
			continue
		}
		client := slices.Index(who, e.Who)
		if client < 0 {
			client = len(who)
			who = append(who, e.Who)
		}
		call := call{who: e.Who, permits: e.Permits, counts: worst.holds(e, losses)}
		ops = append(ops, porcupine.Operation{ClientId: client, Input: call, Output: call,
			Call: e.Start.UnixNano(), Return: e.End.UnixNano()})
	}
	model := lim.model(worst.Intervals)
	_, info := porcupine.CheckOperationsVerbose(model, ops, drawing)
	info.AddAnnotations([]porcupine.Annotation{{
		Tag: "window", Start: worst.From.UnixNano(), End: worst.To.UnixNano(),
		Description: worst.String(), BackgroundColor: "#ffd0d0",
	}})
	for _, loss := range losses {
		if !loss.Since.Before(from) && !loss.Since.After(to) {
			info.AddAnnotations([]porcupine.Annotation{{Tag: "losses", Description: loss.Why,
				Start: loss.Since.UnixNano(), End: loss.To.UnixNano()}})
		}
	}
	return file.Name(), porcupine.Visualize(model, info, file)
}

// holds reports whether a grant counts in the window. A release does if it may have
// happened there.
func (w Window) holds(e Entry, losses []Loss) bool {
	if e.Permits < 0 {
		return !e.End.Before(w.From) && !e.Start.After(w.To)
	}
	gone := goneSince(e, losses)
	if e.Dated && w.Intervals > 1 {
		return false
	}
	return !e.Start.Before(w.From) && !e.End.After(w.To) && (gone.IsZero() || w.To.Before(gone))
}

// call is a call in the picture.
type call struct {
	who     string
	permits int64
	counts  bool
}

// model is a limiter that grants so many permits as the window may hold. Its state
// is what it has granted.
func (lim Limit) model(intervals int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			sum, known := state.(int64)
			if c, ok := input.(call); ok && c.counts {
				sum += c.permits
			}
			return known && sum <= lim.Rate*intervals, sum
		},
		DescribeOperation: func(input, _ any) string {
			c, ok := input.(call)
			if !ok || !c.counts {
				return fmt.Sprintf("%s: %+d, outside", c.who, c.permits)
			}
			return fmt.Sprintf("%s: %+d", c.who, c.permits)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%d in the window", state) },
	}
}

package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/pause"
)

// A timeline is the common log of the callers. It prints each call when the call returns, and sums
// up the grants.
type timeline struct {
	limiter *rratelimiter.RateLimiter
	start   time.Time // the callers' times count from here

	mu     sync.Mutex // guards the fields below
	out    io.Writer
	grants []grant
	got    map[string]int64 // permits by caller

	colours bool
}

// A grant is permits that a call got; a release has permits below 0.
type grant struct {
	begin, end time.Time // of the call
	permits    int64
}

// The colours of a terminal.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	normal = "\x1b[0m"
)

// newTimeline returns a timeline that starts now.
func newTimeline(l *rratelimiter.RateLimiter, out io.Writer) *timeline {
	start := time.Now()
	return &timeline{limiter: l, start: start, out: out, got: map[string]int64{}}
}

// play lets each caller do its steps in a goroutine, and returns when all have finished. If a step
// fails, the other callers stop.
func (t *timeline) play(ctx context.Context, callers []caller) error {
	fmt.Fprint(t.out, header)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for _, c := range callers {
		all.Go(func() {
			if err := t.perform(ctx, c); err != nil {
				fail(fmt.Errorf("%s: %w", c.name, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// perform does the steps of one caller.
func (t *timeline) perform(ctx context.Context, c caller) error {
	for _, s := range c.steps {
		if err := pause.For(ctx, s.at-time.Since(t.start)); err != nil {
			return err
		}
		begin := time.Now()
		o, err := s.do(ctx, t.limiter)
		if err != nil {
			return fmt.Errorf("%s: %w", s.call, err)
		}
		if err := t.note(ctx, c.name, s.call, o, begin); err != nil {
			return err
		}
	}
	return nil
}

// note logs and prints the outcome of a call. If the outcome lacks the permits that are left, note asks
// for their number, which then lacks the permits that another caller took in between.
func (t *timeline) note(ctx context.Context, name, call string, o outcome, begin time.Time) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if o.left == unknown {
		if o.left, err = t.limiter.AvailablePermits(ctx); err != nil {
			return err
		}
	}
	t.got[name] += o.permits
	t.grants = append(t.grants, grant{begin, now, o.permits})
	text := fmt.Sprintf("%-23s", o.text) // padded before it is painted, because a colour has bytes as well
	if t.colours {
		text = o.colour() + text + normal
	}
	_, err = fmt.Fprintf(t.out, "%6.3f  %-6s  %-20s  %s  %s %d\n",
		now.Sub(t.start).Seconds(), name, call, text, gauge(o.left), o.left)
	return err
}

// colour returns the colour of a yes or a no.
func (o outcome) colour() string {
	if o.yes {
		return green
	}
	return yellow
}

// header has the columns that note prints.
const header = `  time  caller  asks                  gets                     left
------  ------  --------------------  -----------------------  -------
`

// most returns the most permits of calls that began and ended within an interval. The limiter counts in
// whole ms, so an interval may be 2 ms shorter by the clock of a caller.
func (t *timeline) most() (most int64) {
	for _, first := range t.grants {
		sum, end := int64(0), first.begin.Add(interval-2*time.Millisecond)
		for _, g := range t.grants {
			if !g.begin.Before(first.begin) && g.end.Before(end) {
				sum += g.permits
			}
		}
		most = max(most, sum)
	}
	return most
}

// gauge draws the permits that are left of the rate.
func gauge(left int64) string {
	n := int(min(max(left, 0), rate))
	return strings.Repeat("#", n) + strings.Repeat(".", rate-n)
}

// sumUp prints how many permits each caller got, the most in any interval, and what to do next. More
// permits than the rate are an error.
func (t *timeline) sumUp(callers []caller, program string) error {
	shares := make([]string, len(callers))
	for i, c := range callers {
		shares[i] = fmt.Sprintf("%s %d", c.name, t.got[c.name])
	}
	if most := t.most(); most > rate {
		return fmt.Errorf("the callers' log shows %d permits within %v", most, interval)
	}
	_, err := fmt.Fprintf(t.out, "\nGranted: %s; never more than %d permits in any %v.\n"+
		"Next: start a redis-server, then %s set jobs 5/1s and %[4]s acquire jobs.\n",
		strings.Join(shares, ", "), rate, interval, program)
	return err
}

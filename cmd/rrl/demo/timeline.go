package demo

import (
	"context"
	"errors"
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

// play lets each caller make its calls in a goroutine, and returns when all have finished. If a call
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

// perform makes the calls of one caller.
func (t *timeline) perform(ctx context.Context, c caller) error {
	for _, call := range c.calls {
		if err := pause.For(ctx, call.at-time.Since(t.start)); err != nil {
			return err
		}
		begin := time.Now()
		o, err := call.do(ctx, t.limiter)
		if err != nil {
			return fmt.Errorf("%v: %w", call, err)
		}
		if err := t.note(ctx, c.name, call, o, begin); err != nil {
			return err
		}
	}
	return nil
}

// note logs and prints the outcome of a call. If the outcome lacks the permits that are left, note asks
// for their number, which then lacks the permits that another caller took in between.
func (t *timeline) note(ctx context.Context, name string, c call, o outcome, begin time.Time) (err error) {
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
		colour := yellow
		if o.yes {
			colour = green
		}
		text = colour + text + normal
	}
	_, err = fmt.Fprintf(t.out, "%6.3f  %-6s  %-20s  %s  %s %d\n",
		now.Sub(t.start).Seconds(), name, c, text, gauge(o.left), o.left)
	return err
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

// A caller is one goroutine of the demo: a name and the calls that it makes in turn.
type caller struct {
	name  string
	calls []call
}

// A call is one call of the limiter. A TryAcquire has a timeout; an Allow and a Release have none.
type call struct {
	at      time.Duration // since the start; later if the call before takes longer
	method  string
	permits int64
	timeout time.Duration
}

const (
	try     = "TryAcquire"
	allow   = "Allow"
	release = "Release" // of permits of the call before

	ms = time.Millisecond

	// noticeable is how long a call must take to be shown as one that waited. Redis replies in a
	// fraction of it.
	noticeable = 10 * ms
)

// scene returns the callers and what they do. The first second shows each kind of outcome: permits are
// taken, refused, given back, waited for, and waited for in vain. The calls are at least 100 ms apart, so
// that they come in the same order on a slow machine. This matters most before a Release, which takes
// permits out of the newest grants: those should belong to the same caller.
func scene() []caller {
	return []caller{
		{"web", []call{
			{0, try, 1, 500 * ms}, {600 * ms, try, 1, 500 * ms}, {800 * ms, try, 1, 500 * ms},
			{1800 * ms, try, 1, 500 * ms}, {2300 * ms, try, 1, 500 * ms}, {3300 * ms, try, 1, 500 * ms},
			{3850 * ms, try, 1, 500 * ms},
		}},
		{"mail", []call{
			{100 * ms, try, 1, 200 * ms}, {700 * ms, try, 1, 200 * ms}, {1150 * ms, try, 1, 200 * ms},
			{2050 * ms, try, 1, 200 * ms}, {3200 * ms, try, 1, 200 * ms}, {3950 * ms, try, 1, 200 * ms},
		}},
		{"report", []call{
			{200 * ms, try, 3, 2 * time.Second}, {400 * ms, release, 2, 0},
			{1300 * ms, try, 3, 2 * time.Second}, {3400 * ms, try, 2, 2 * time.Second},
		}},
		{"search", []call{
			{300 * ms, allow, 1, 0}, {500 * ms, allow, 1, 0}, {1700 * ms, allow, 1, 0},
			{2700 * ms, allow, 1, 0}, {3650 * ms, allow, 1, 0}, {3750 * ms, allow, 1, 0},
		}},
	}
}

func (c call) String() string {
	if c.method == try {
		return fmt.Sprintf("%s(%d, %v)", c.method, c.permits, c.timeout)
	}
	return fmt.Sprintf("%s(%d)", c.method, c.permits)
}

// An outcome is the result of a call.
type outcome struct {
	text    string
	yes     bool
	permits int64 // taken, or below 0 if given back
	left    int64 // unknown if the call does not return it
}

const unknown = -1

// do makes the call. A reply that comes too late ends the call, not the demo: the library gives back what it
// may have taken. If Redis is away, the next call fails.
func (c call) do(ctx context.Context, l *rratelimiter.RateLimiter) (outcome, error) {
	switch c.method {
	case release:
		return outcome{"given back", true, -c.permits, unknown}, l.Release(ctx, c.permits)
	case allow:
		r, err := l.Allow(ctx, c.permits)
		if !r.Allowed {
			text := fmt.Sprintf("no, retry after %d ms", r.RetryAfter.Milliseconds())
			return outcome{text: text, left: r.Remaining}, err
		}
		return outcome{"yes", true, c.permits, r.Remaining}, err
	}
	start := time.Now()
	ok, err := l.TryAcquire(ctx, c.permits, c.timeout)
	after := ""
	if d := time.Since(start); d >= noticeable {
		after = fmt.Sprintf(", after %d ms", d.Milliseconds())
	}
	switch {
	case errors.Is(err, rratelimiter.ErrNoAnswer):
		return outcome{text: "no reply" + after, left: unknown}, nil
	case !ok:
		return outcome{text: "no" + after, left: unknown}, err
	}
	return outcome{"yes" + after, true, c.permits, unknown}, err
}

package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/pause"
)

// A timeline is the common log of the callers. It prints each call when it is done,
// and keeps the grants.
type timeline struct {
	limiter *rratelimiter.RateLimiter
	start   time.Time // the callers' times count from here
	epoch   time.Time // start by the clock of the server

	mu     sync.Mutex // guards the fields below
	page   *page
	grants grants
	got    map[string]int64 // permits by caller
}

// newTimeline returns a timeline that starts now.
func newTimeline(
	ctx context.Context, rdb redis.UniversalClient, l *rratelimiter.RateLimiter, p *page,
) (*timeline, error) {
	rdb.AddHook(stamping{})
	epoch, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	return &timeline{limiter: l, start: time.Now(), epoch: epoch, page: p, got: map[string]int64{}}, nil
}

// play lets each caller do its steps in a goroutine, and returns when all have
// finished. If a step fails, the other callers stop.
func (t *timeline) play(ctx context.Context, callers []caller) error {
	t.page.printf("%s", header)
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
		if err := t.sleepUntil(ctx, s.at); err != nil {
			return err
		}
		stamped, sent := withStamp(ctx)
		o, err := s.do(stamped, t.limiter)
		if err != nil {
			return fmt.Errorf("%s: %w", s.call, err)
		}
		if err := t.note(ctx, c.name, s.call, o, sent.time()); err != nil {
			return err
		}
	}
	return nil
}

// sleepUntil waits for a time since the start.
func (t *timeline) sleepUntil(ctx context.Context, at time.Duration) error {
	return pause.For(ctx, at-time.Since(t.start))
}

// note logs and prints the outcome of a call whose last request was sent at the
// given time. If the outcome doesn't tell how many permits are left, note asks for
// them; then permits that another caller took in between are missing from the
// number.
func (t *timeline) note(ctx context.Context, name, call string, o outcome, sent time.Time) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if o.left == unknown {
		if o.left, err = t.limiter.AvailablePermits(ctx); err != nil {
			return err
		}
	}
	t.got[name] += o.permits
	t.grants.add(grant{sent, now, o.permits})
	text := fmt.Sprintf("%-23s", o.text) // padded before it is painted, for a colour has bytes, too
	text = t.page.paint(o.colour(), text)
	t.page.printf("%6.3f  %-6s  %-20s  %s  %s %d\n",
		now.Sub(t.start).Seconds(), name, call, text, gauge(o.left), o.left)
	return t.page.err
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

// gauge draws the permits that are left of the rate.
func gauge(left int64) string {
	n := int(min(max(left, 0), rate))
	return strings.Repeat("#", n) + strings.Repeat(".", rate-n)
}

// sumUp prints how many permits each caller got, and the most in any interval. It is
// an error if that is more than the rate.
func (t *timeline) sumUp(callers []caller) error {
	shares := make([]string, len(callers))
	for i, c := range callers {
		shares[i] = fmt.Sprintf("%s %d", c.name, t.got[c.name])
	}
	most := t.grants.most(interval)
	if most > rate {
		return fmt.Errorf("the callers' log shows %d permits within %v", most, interval)
	}
	t.page.printf("\nGranted: %s; never more than %d permits in any %v.\n",
		strings.Join(shares, ", "), most, interval)
	return t.page.err
}

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A timeline is the callers' common log: it prints what happens as it happens,
// and keeps what was granted.
type timeline struct {
	limiter *rratelimiter.RateLimiter
	start   time.Time // what the callers' times count from
	epoch   time.Time // the same moment by the clock of the server

	mu     sync.Mutex // guards the fields below
	page   *page
	grants grants
	got    map[string]int64 // permits by caller
}

// newTimeline returns a timeline that starts now.
func newTimeline(ctx context.Context, rdb *redis.Client, l *rratelimiter.RateLimiter, p *page) (*timeline, error) {
	rdb.AddHook(stamping{})
	epoch, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	return &timeline{limiter: l, start: time.Now(), epoch: epoch, page: p, got: map[string]int64{}}, nil
}

// play lets each caller do its steps, and returns when all have, or one could
// not.
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

func (t *timeline) perform(ctx context.Context, c caller) error {
	for _, s := range c.steps {
		if err := t.sleepUntil(ctx, s.at); err != nil {
			return err
		}
		stamped, sent := withStamp(ctx)
		a, err := s.do(stamped, t.limiter)
		if err != nil {
			return fmt.Errorf("%s: %w", s.asked, err)
		}
		if err := t.note(ctx, c.name, s.asked, a, sent.time()); err != nil {
			return err
		}
	}
	return nil
}

func (t *timeline) sleepUntil(ctx context.Context, at time.Duration) error {
	timer := time.NewTimer(at - time.Since(t.start))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note logs and prints the answer to a call whose last request was sent at the
// given time. What is left is asked for where the answer doesn't tell; what
// somebody else takes in between is missing from it already.
func (t *timeline) note(ctx context.Context, name, asked string, a answer, sent time.Time) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if a.left == unknown {
		if a.left, err = t.limiter.AvailablePermits(ctx); err != nil {
			return err
		}
	}
	t.got[name] += a.permits
	t.grants.add(grant{sent, now, a.permits})
	t.page.printf("%6.3f  %-6s  %-20s  %s  %s %d\n",
		now.Sub(t.start).Seconds(), name, asked, t.page.paint(a.colour(), fmt.Sprintf("%-23s", a.text)), gauge(a.left), a.left)
	return t.page.err
}

// colour is that of a yes or a no.
func (a answer) colour() string {
	if a.yes {
		return green
	}
	return yellow
}

const header = `  time  caller  asks                  gets                     left
------  ------  --------------------  -----------------------  -------
`

// gauge draws what is left of the rate.
func gauge(left int64) string {
	n := int(min(max(left, 0), rate))
	return strings.Repeat("#", n) + strings.Repeat(".", rate-n)
}

// sumUp says who got how much, and what the log proves.
func (t *timeline) sumUp(callers []caller) error {
	shares := make([]string, len(callers))
	for i, c := range callers {
		shares[i] = fmt.Sprintf("%s %d", c.name, t.got[c.name])
	}
	most := t.grants.most(interval)
	if most > rate {
		return fmt.Errorf("the callers' log shows %d permits within %v", most, interval)
	}
	t.page.printf("\nGranted: %s; never more than %d permits in any %v.\n", strings.Join(shares, ", "), most, interval)
	return t.page.err
}

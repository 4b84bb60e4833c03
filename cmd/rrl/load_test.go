package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/load"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// loadable returns a server, and a limiter on it of 10 permits an hour.
func loadable(t *testing.T) (*redistest.Server, *rratelimiter.RateLimiter) {
	t.Helper()
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter("api")
	redistest.NoError(t, l.SetRate(t.Context(), rratelimiter.Overall, 10, time.Hour))
	return s, l
}

func TestLoadCommand(t *testing.T) {
	t.Parallel()
	s, _ := loadable(t)
	code, stdout, stderr := on(t, s.Addr, "load api --yes --calls 100")
	if code != 0 || stderr != "" {
		t.Errorf("code %d, printed\n%s", code, stderr)
	}
	for _, want := range []string{
		"100 calls in ", "10 permits granted", "p99.9", "granted     10 ", "refused     90 ",
		"The limit held: at most 10 permits granted within any 1h, the rate is 10.\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	code, stdout, stderr = on(t, s.Addr, "load api --yes --json --calls 20")
	var r load.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" ||
		r.Calls != 20 || r.Refused.Calls != 20 || r.Worst.Permits != 0 || !r.Worst.Checked {
		t.Errorf("code %d, %v, printed\n%s\n%s", code, err, stdout, stderr)
	}
}

// A load without a yes, or of more permits than the rate, takes nothing.
func TestLoadRefused(t *testing.T) {
	t.Parallel()
	s, l := loadable(t)
	const above = `--permits is 11, must be at most the rate of "api", which is 10`
	steps(t, s.Addr,
		step{"load api --permits 11 --yes", exitError, "", above},
		step{"load api --callers 3 --calls 9", exitError, "",
			`(OVERALL, 10 in 1h) for 10s, 9 calls at most.`},
		step{"load api --rate 6/1m", exitError, "", "nothing was done: type yes, or give --yes"},
	)
	if n, err := l.AvailablePermits(t.Context()); n != 10 || err != nil {
		t.Errorf("%d permits are left, %v", n, err)
	}
}

// An interrupted load prints its measurements so far.
func TestLoadInterrupted(t *testing.T) {
	t.Parallel()
	s, l := loadable(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for n := int64(10); n > 0 && ctx.Err() == nil; {
			n, _ = l.AvailablePermits(ctx)
		}
	}()
	code, stdout, stderr := rrl(ctx, "load", "api", "--redis", s.Addr, "--yes", "--timeout=1h", "--for=1h")
	if code != exitInterrupted || stderr != "rrl: interrupted\n" ||
		!strings.Contains(stdout, "within any 1h") {
		t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
	}
}

// loads calls meanwhile when a load has taken all permits, and returns the result of the load.
func loads(t *testing.T, meanwhile func(l *rratelimiter.RateLimiter) error, args string) (
	code int, stdout, stderr string,
) {
	t.Helper()
	s, l := loadable(t)
	var loading sync.WaitGroup
	loading.Go(func() { code, stdout, stderr = on(t, s.Addr, "load api "+args) })
	redistest.Until(t, "all permits are taken", func() error {
		n, err := l.AvailablePermits(t.Context())
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
	if err := meanwhile(l); err != nil {
		t.Error(err)
	}
	loading.Wait()
	return code, stdout, stderr
}

// A load sees that more than the rate was granted, after a release of permits by another program.
func TestLoadFindsTooMany(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := loads(t, func(l *rratelimiter.RateLimiter) error {
		return l.Release(t.Context(), 10)
	}, "-y --callers 1 --permits 10 --calls 2 --timeout 1h --for 1h")
	const found = "MORE THAN THE RATE: 20 permits granted within 1h"
	if code != exitNo || stderr != "" || !strings.Contains(stdout, found) {
		t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
	}
}

// A load with failed calls fails, and counts them by their errors.
func TestLoadFails(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := loads(t, func(l *rratelimiter.RateLimiter) error {
		_, err := l.Delete(t.Context())
		return err
	}, "--yes --callers 10 --permits 1 --calls 15 --timeout 50s --for 1h")
	if code != exitError || !strings.Contains(stderr, "calls failed") ||
		!strings.Contains(stdout, "calls failed: no rate is set\n") ||
		!strings.Contains(stdout, "The limit was not checked") {
		t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
	}
}

// On a terminal a yes starts the load, which shows its progress.
func TestLoadOnTerminal(t *testing.T) {
	t.Parallel()
	s, _ := loadable(t)
	term := onTerminal(t, nil, "load", "api", "--redis", s.Addr, "--for", "1h", "--rate", "100")
	term.has("Type yes to go on:")
	term.presses("yes\n")
	term.has("%  10 granted, ")
	term.presses("\x03")
	term.has("The limit held")
	code, all := term.ends()
	if code != exitInterrupted {
		t.Errorf("exit code %d, %q", code, all)
	}
}

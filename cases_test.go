package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// The cases of Redisson's own test of its limiter, RedissonRateLimiterTest, by the names of its
// methods: what they do to a limiter, step by step, and what must come of it. docs/limiter-cases.md
// says what each shows.
var redissonCases = map[string]string{
	"testKeepAliveTime": "try 1 1s alive 1s; sleep 1.1s; exists no; " +
		"try 10 2s alive 2s; sleep 1s; yes 1; lives 1.5s",
	"testExpire2":             "try 5 5s; expire 10s; acquire 1; sleep 12s; keys 0",
	"testRateValue":           "set 10000 10s; crowd 200 19s; used 0.95 10000 10s 19s",
	"testExpire":              "try 2 5s; yes 1; expire 1s; sleep 1.1s; keys 0",
	"testAcquisitionInterval": "try 2 5s; yes 1; sleep 4s; yes 1; sleep 1.05s; yes 1; no 1",
	"testRateConfig":          "try 1 5s; config overall 1 5s",
	"testAvailablePermits":    "try 10 5s; left 10; acquire 1; sleep 6s; left 10",
	"testUpdateRateConfig":    "try 1 5s; set 2 5s; config overall 2 5s",
	"testPermitsExceeding":    "try 1 1s client; exceeds 20; yes 1",
	"testZeroTimeout": "try 5 1s; left 5; yes 1; yes 1; left 3; yes 1; yes 1; left 1; yes 1; left 0; no 1; no 1; " +
		"sleep 1s; yes 1; yes 1; yes 1; yes 1; yes 1; no 1; no 1",
	"testTryAcquire": "try 1 5s; waits 1 1s yes; waits 1 1s no; no 1",
	"testAcquire": "try 1 5s; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; " +
		"acquire 1; acquire 1; no 1",
	"test":             "try 10 1s; tried 20 1s; crowd 10 3.1s; used 1 10 1s 3.1s",
	"testRemove":       "deleted no; try 5 5m; keys 1; yes 1; deleted yes; keys 0",
	"testConcurrency2": "try 18 1s; crowd 8 54.5s; used 0.95 18 1s 54.5s",
	"testConcurrency":  "try 10 1s; tried 20 1s; crowd 8 49.5s; used 0.95 10 1s 49.5s",
	"testChangeRate": "set 10 1s client; config client 10 1s; acquire 1; left 9; set 20 1s client; " +
		"config client 20 1s; acquire 1; left 19; set 10 1s; config overall 10 1s; acquire 1; left 9; " +
		"set 20 1s; config overall 20 1s; acquire 1; left 19",
	"testSetStateArgs":             "set 10 1s keep; acquire 3; left 7; sleep 1.1s; acquire 3; left 7",
	"testSetStateArgsKeepState":    "set 10 5s keep; acquire 3; left 7; set 20 5s keep; left 17",
	"testSetStateArgsNotKeepState": "set 10 5s keep; acquire 3; left 7; set 20 5s; left 20",
	"testUpdateRateNonExisting":    "updated 10 5s keep no; exists no; updated 10 5s client keep no; exists no",
	"testUpdateRateKeepsState":     "set 10 5s keep; updated 10 5s keep yes; left 10; acquire 2; left 8; no 10; yes 8",
	"testUpdateRateHigherRate":     "set 10 2s keep; sleep 1s; acquire 4; left 6; updated 20 5s keep yes; left 16; yes 16",
	"testUpdateRateLowerRateNewValuePositive": "set 10 2s keep; sleep 1s; acquire 3; left 7; updated 5 5s keep yes; " +
		"left 2; no 3; yes 2",
	"testUpdateRateLowerRateNewValueNegative": "set 10 2s keep; sleep 1s; acquire 8; left 2; updated 5 5s keep yes; " +
		"left 0; no 1; no 2",
	"testUpdateRatePermitResetFull":                     "set 10 1s keep; acquire 8; left 2; sleep 2s; updated 10 1s keep yes; left 10",
	"testUpdateRateModeChangeClearsState":               "set 10 5s keep; acquire 4; left 6; updated 10 5s client keep yes; left 10",
	"testUpdateRateKeepAliveTimeLessThanIntervalThrows": "invalid 10 5s keep alive 1s",
	"testUpdateRateRateIntervalChangeDropsExpired": "set 10 5s keep; acquire 3; left 7; sleep 1.1s; " +
		"updated 10 1s keep yes; left 10",
	"testUpdateRatePerClientUsesClientState": "set 10 5s client keep; acquire 3; left 7; " +
		"updated 20 5s client keep yes; left 17",
	"testRelease": "set 10 1s client; config client 10 1s; acquire 3; left 7; release 3; left 10; release 10; left 10; " +
		"set 10 1s; config overall 10 1s; acquire 3; left 7; release 3; left 10; release 10; left 10; release 0; left 10; releases -1 no",
}

// What Redisson's own test shows of its limiter holds for ours.
func TestCasesOfRedisson(t *testing.T) {
	t.Parallel()
	for name, steps := range redissonCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(c *crowd) {
				run := &caseRun{crowd: c}
				for step := range strings.SplitSeq(steps, "; ") {
					if said, err := run.step(strings.Fields(step)); err != nil || said != "" {
						c.Fatalf("%q: %s %v", step, said, err)
					}
				}
			}, rratelimiter.WithGoOnly())
		})
	}
}

// A caseRun is one case under way.
type caseRun struct {
	*crowd
	took int64 // permits that its crowd got
}

// rate reads a rate as a case writes it: permits, interval, and what it has besides.
func (*caseRun) rate(words []string) (
	typ rratelimiter.RateType, rate int64, interval time.Duration, opts []rratelimiter.RateOption,
) {
	_, _ = fmt.Sscan(words[0], &rate)
	interval, _ = time.ParseDuration(words[1])
	for i, word := range words {
		switch word {
		case "client":
			typ = rratelimiter.PerClient
		case "keep":
			opts = append(opts, rratelimiter.WithKeepState())
		case "alive":
			alive, _ := time.ParseDuration(words[i+1])
			opts = append(opts, rratelimiter.WithKeepAlive(alive))
		}
	}
	return typ, rate, interval, opts
}

// step takes one step, and says what came of it if that is not what the step wants.
func (r *caseRun) step(words []string) (said string, err error) {
	ctx, op, args := r.Context(), words[0], words[1:]
	number := func(i int) (n int64) {
		_, _ = fmt.Sscan(args[i], &n)
		return n
	}
	span := func(i int) time.Duration {
		d, err := time.ParseDuration(args[i])
		noError(r.T, err)
		return d
	}
	is := func(got bool, err error) (string, error) { return r.differs(got, args[len(args)-1] != "no"), err }
	switch op {
	case "try", "tried", "set", "updated", "invalid":
		return r.setsRate(ctx, op, args)
	case "config":
		got, err := r.Config(ctx)
		typ, rate, interval, _ := r.rate(args[1:])
		if args[0] == "client" {
			typ = perClient
		}
		return r.differs(got, rratelimiter.Config{Type: typ, Rate: rate, Interval: interval}), err
	case "yes", "no":
		got, err := r.TryAcquire(ctx, number(0), 0)
		return r.differs(got, op == "yes"), err
	case "waits":
		return is(r.TryAcquire(ctx, number(0), span(1)))
	case "acquire":
		return "", r.Acquire(ctx, number(0))
	case "exceeds":
		_, err := r.TryAcquire(ctx, number(0), 0)
		return r.differs(errors.Is(err, rratelimiter.ErrPermitsExceedRate), true), nil
	case "release":
		return "", r.Release(ctx, number(0))
	case "releases":
		return is(r.Release(ctx, number(0)) == nil, nil)
	case "left":
		got, err := r.AvailablePermits(ctx)
		return r.differs(got, number(0)), err
	case "exists":
		return is(r.Exists(ctx))
	case "deleted":
		return is(r.Delete(ctx))
	case "expire":
		return is(r.Expire(ctx, span(0)))
	case "lives":
		ttl, err := r.RemainTimeToLive(ctx)
		return r.differs(ttl > span(0), true), err
	case "keys":
		return r.differs(int64(len(r.server.Keys())), number(0)), nil
	case "sleep":
		r.sleep(span(0))
		return "", nil
	case "crowd":
		r.enters(number(0), span(1))
		return "", nil
	case "used":
		return r.used(args)
	}
	return "there is no such step", nil
}

// differs says what two values are if they are not the same.
func (*caseRun) differs(got, want any) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%v, want %v", got, want)
}

func (r *caseRun) setsRate(ctx context.Context, op string, args []string) (said string, err error) {
	typ, rate, interval, opts := r.rate(args)
	switch op {
	case "set":
		return "", r.SetRate(ctx, typ, rate, interval, opts...)
	case "updated":
		got, err := r.UpdateRate(ctx, typ, rate, interval, opts...)
		return r.differs(got, args[len(args)-1] == "yes"), err
	case "invalid":
		_, err := r.UpdateRate(ctx, typ, rate, interval, opts...)
		return r.differs(errors.Is(err, rratelimiter.ErrInvalidArgument), true), nil
	}
	got, err := r.TrySetRate(ctx, typ, rate, interval, opts...)
	return r.differs(got, op == "try"), err
}

// enters has so many callers acquire permits, one by one, for a while.
func (r *caseRun) enters(callers int64, d time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	for range callers {
		all.Go(func() {
			for r.Acquire(ctx, 1) == nil {
				mu.Lock()
				r.took++
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// used says whether a crowd used up that part of a rate for a while, and not more than all of it.
func (r *caseRun) used(args []string) (said string, err error) {
	var part float64
	var rate int64
	_, _ = fmt.Sscan(args[0], &part)
	_, _ = fmt.Sscan(args[1], &rate)
	interval, _ := time.ParseDuration(args[2])
	d, _ := time.ParseDuration(args[3])
	most := rate * int64((d+interval-1)/interval)
	if least := int64(part * float64(rate) * float64(d/interval)); r.took < least || r.took > most {
		return fmt.Sprintf("the crowd got %d permits, want %d to %d", r.took, least, most), nil
	}
	return "", nil
}

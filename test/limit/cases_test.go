package limit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// redissonCases are the cases of Redisson's own test of its limiter, RedissonRateLimiterTest, by the names
// of its methods: their steps, and the results. docs/faults.md says where the two differ on purpose.
var redissonCases = map[string]string{
	"testKeepAliveTime": "" +
		"try 1 1s alive 1s; sleep 1.1s; exists no; try 10 2s alive 2s; sleep 1s; yes 1; lives 1.5s",
	"testExpire2":             "try 5 5s; expire 10s; acquire 1; sleep 12s; keys 0",
	"testRateValue":           "set 10000 10s; crowd 200 19s; used 0.95 10000 10s 19s",
	"testExpire":              "try 2 5s; yes 1; expire 1s; sleep 1.1s; keys 0",
	"testAcquisitionInterval": "try 2 5s; yes 1; sleep 4s; yes 1; sleep 1.05s; yes 1; no 1",
	"testRateConfig":          "try 1 5s; config overall 1 5s",
	"testAvailablePermits":    "try 10 5s; left 10; acquire 1; sleep 6s; left 10",
	"testUpdateRateConfig":    "try 1 5s; set 2 5s; config overall 2 5s",
	"testPermitsExceeding":    "try 1 1s client; exceeds 20; yes 1",
	"testZeroTimeout": "" +
		"try 5 1s; left 5; yes 1; yes 1; left 3; yes 1; yes 1; left 1; yes 1; left 0; no 1; no 1; " +
		"sleep 1s; yes 1; yes 1; yes 1; yes 1; yes 1; no 1; no 1",
	"testTryAcquire": "try 1 5s; waits 1 1s yes; waits 1 1s no; no 1",
	"testAcquire": "" +
		"try 1 5s; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; acquire 1; " +
		"acquire 1; acquire 1; acquire 1; no 1",
	"test":             "try 10 1s; tried 20 1s; crowd 10 3.1s; used 1 10 1s 3.1s",
	"testRemove":       "deleted no; try 5 5m; keys 1; yes 1; deleted yes; keys 0",
	"testConcurrency2": "try 18 1s; crowd 8 54.5s; used 0.95 18 1s 54.5s",
	"testConcurrency":  "try 10 1s; tried 20 1s; crowd 8 49.5s; used 0.95 10 1s 49.5s",
	"testChangeRate": "" +
		"set 10 1s client; config client 10 1s; acquire 1; left 9; set 20 1s client; " +
		"config client 20 1s; acquire 1; left 19; set 10 1s; config overall 10 1s; acquire 1; " +
		"left 9; set 20 1s; config overall 20 1s; acquire 1; left 19",
	"testSetStateArgs":             "set 10 1s keep; acquire 3; left 7; sleep 1.1s; acquire 3; left 7",
	"testSetStateArgsKeepState":    "set 10 5s keep; acquire 3; left 7; set 20 5s keep; left 17",
	"testSetStateArgsNotKeepState": "set 10 5s keep; acquire 3; left 7; set 20 5s; left 20",
	"testUpdateRateNonExisting": "" +
		"updated 10 5s keep no; exists no; updated 10 5s client keep no; exists no",
	"testUpdateRateKeepsState": "" +
		"set 10 5s keep; updated 10 5s keep yes; left 10; acquire 2; left 8; no 10; yes 8",
	"testUpdateRateHigherRate": "" +
		"set 10 2s keep; sleep 1s; acquire 4; left 6; updated 20 5s keep yes; left 16; yes 16",
	"testUpdateRateLowerRateNewValuePositive": "" +
		"set 10 2s keep; sleep 1s; acquire 3; left 7; updated 5 5s keep yes; left 2; no 3; yes 2",
	"testUpdateRateLowerRateNewValueNegative": "" +
		"set 10 2s keep; sleep 1s; acquire 8; left 2; updated 5 5s keep yes; left 0; no 1; no 2",
	"testUpdateRatePermitResetFull": "" +
		"set 10 1s keep; acquire 8; left 2; sleep 2s; updated 10 1s keep yes; left 10",
	"testUpdateRateModeChangeClearsState": "" +
		"set 10 5s keep; acquire 4; left 6; updated 10 5s client keep yes; left 10",
	"testUpdateRateKeepAliveTimeLessThanIntervalThrows": "invalid 10 5s keep alive 1s",
	"testUpdateRateRateIntervalChangeDropsExpired": "" +
		"set 10 5s keep; acquire 3; left 7; sleep 1.1s; updated 10 1s keep yes; left 10",
	"testUpdateRatePerClientUsesClientState": "" +
		"set 10 5s client keep; acquire 3; left 7; updated 20 5s client keep yes; left 17",
	"testRelease": "" +
		"set 10 1s client; config client 10 1s; acquire 3; left 7; release 3; left 10; release 10; " +
		"left 10; set 10 1s; config overall 10 1s; acquire 3; left 7; release 3; left 10; " +
		"release 10; left 10; release 0; left 10; release -1 no",
}

func TestCasesOfRedisson(t *testing.T) {
	t.Parallel()
	for name, steps := range redissonCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Bubble(t, func(c *Limiter) {
				run := &caseRun{Limiter: c}
				for step := range strings.SplitSeq(steps, "; ") {
					words := strings.Fields(step)
					got, wanted, err := run.does(c.Context(), words[0], words[1:])
					if err != nil || got != wanted {
						c.Fatalf("%q: %v, %v; want %v", step, got, err, wanted)
					}
				}
			}, rratelimiter.WithGoOnly())
		})
	}
}

// A caseRun is one case under way.
type caseRun struct {
	*Limiter
	took int64 // permits of the crowd
}

// rate reads a rate of a step: permits, interval, and options.
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

// whole and span read a word of a step.
func whole(word string) (n int64) {
	_, _ = fmt.Sscan(word, &n)
	return n
}

func span(word string) time.Duration {
	d, _ := time.ParseDuration(word)
	return d
}

// said reports whether a step wants a yes: its last word is not no.
func said(args []string) bool { return args[len(args)-1] != "no" }

// does does a step. It returns the result, and the wanted one.
func (r *caseRun) does(ctx context.Context, step string, args []string) (got, wanted any, err error) {
	switch step {
	case "try", "tried", "set", "updated", "invalid":
		return r.sets(ctx, step, args)
	case "config":
		typ, rate, interval, _ := r.rate(append(args[1:], args[0]))
		got, err = r.Config(ctx)
		return got, rratelimiter.Config{Type: typ, Rate: rate, Interval: interval}, err
	case "yes", "no":
		got, err = r.TryAcquire(ctx, whole(args[0]), 0)
		return got, step == "yes", err
	case "waits":
		got, err = r.TryAcquire(ctx, whole(args[0]), span(args[1]))
		return got, said(args), err
	case "acquire":
		return nil, nil, r.Acquire(ctx, whole(args[0]))
	case "exceeds":
		_, err = r.TryAcquire(ctx, whole(args[0]), 0)
		return errors.Is(err, rratelimiter.ErrPermitsExceedRate), true, nil
	case "release":
		return r.Release(ctx, whole(args[0])) == nil, said(args), nil
	case "left":
		got, err = r.AvailablePermits(ctx)
		return got, whole(args[0]), err
	case "exists", "deleted", "expire", "lives", "keys":
		return r.object(ctx, step, args)
	case "sleep":
		r.Sleep(span(args[0]))
		return nil, nil, nil
	case "crowd":
		r.acquireFor(ctx, whole(args[0]), span(args[1]))
		return nil, nil, nil
	case "used":
		return r.used(args), "", nil
	}
	return nil, nil, fmt.Errorf("no such step: %s", step)
}

// sets does a step that sets a rate.
func (r *caseRun) sets(ctx context.Context, step string, args []string) (got, wanted any, err error) {
	typ, rate, interval, opts := r.rate(args)
	switch step {
	case "try", "tried":
		got, err = r.TrySetRate(ctx, typ, rate, interval, opts...)
		return got, step == "try", err
	case "set":
		return nil, nil, r.SetRate(ctx, typ, rate, interval, opts...)
	}
	got, err = r.UpdateRate(ctx, typ, rate, interval, opts...)
	if step == "invalid" {
		return errors.Is(err, rratelimiter.ErrInvalidArgument), true, nil
	}
	return got, said(args), err
}

// object does a step about the keys of the limiter.
func (r *caseRun) object(ctx context.Context, step string, args []string) (got, wanted any, err error) {
	switch step {
	case "exists":
		got, err = r.Exists(ctx)
		return got, said(args), err
	case "deleted":
		got, err = r.Delete(ctx)
		return got, said(args), err
	case "expire":
		got, err = r.Expire(ctx, span(args[0]))
		return got, true, err
	case "lives":
		ttl, err := r.RemainTimeToLive(ctx)
		return ttl > span(args[0]), true, err
	}
	return int64(len(r.Mini.Keys())), whole(args[0]), nil
}

// acquireFor starts callers that acquire permits one by one, for a time.
func (r *caseRun) acquireFor(ctx context.Context, callers int64, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
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

// used returns the permits of a crowd as a text if they are less than that part of a rate for a time, or
// more than the rate.
func (r *caseRun) used(args []string) string {
	var part float64
	_, _ = fmt.Sscan(args[0], &part)
	rate, interval, d := whole(args[1]), span(args[2]), span(args[3])
	most := rate * int64((d+interval-1)/interval)
	if least := int64(part * float64(rate) * float64(d/interval)); r.took < least || r.took > most {
		return fmt.Sprintf("%d permits of %d to %d", r.took, least, most)
	}
	return ""
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main does
	redistest.VerifyNoLeaks(m)
}

// inspected prints what the real inspector would be asked for.
func inspected(ctx context.Context, rdb redis.UniversalClient, name string, w io.Writer) error {
	rate, err := rdb.HGet(ctx, name, "rate").Result()
	fmt.Fprintf(w, "%s has rate %s\n", name, rate)
	return err
}

// On a machine without delays, the first second has one outcome of each kind.
func TestDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var out strings.Builder
		redistest.NoError(t, Demo{Inspect: inspected, Program: "./rrl"}.Run(t.Context(), &out))
		if took := time.Since(start); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("the demo took %v", took)
		}
		for _, want := range []string{"shared by 4 callers, on an embedded miniredis.", `
 0.000  web     TryAcquire(1, 500ms)  yes                      ####. 4
 0.100  mail    TryAcquire(1, 200ms)  yes                      ###.. 3
 0.200  report  TryAcquire(3, 2s)     yes                      ..... 0
 0.300  search  Allow(1)              no, retry after 700 ms   ..... 0
 0.400  report  Release(2)            given back               ##... 2
 0.500  search  Allow(1)              yes                      #.... 1
 0.600  web     TryAcquire(1, 500ms)  yes                      ..... 0
 0.900  mail    TryAcquire(1, 200ms)  no, after 200 ms         ..... 0
 1.000  web     TryAcquire(1, 500ms)  yes, after 200 ms        ..... 0
`, `
Granted: web 7, mail 4, report 6, search 3; never more than 5 permits in any 1s.
Next: start a redis-server, then ./rrl set jobs 5/1s and ./rrl acquire jobs.
`, "Redis holds, for Go and Java alike:\n\ndemo has rate 5\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the demo lacks\n%s in\n%s", want, &out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 81 || strings.Contains(line, "\x1b") || strings.HasSuffix(line, " \n") {
				t.Errorf("more than 80 columns, terminal codes, or blanks at the end: %q", line)
			}
		}
	})
}

// On a real Redis the demo uses a name of its own and deletes its keys.
func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var out strings.Builder
	redistest.NoError(t, Demo{Redis: s.Client(t), Where: "here", Inspect: inspected}.Run(t.Context(), &out))
	const want = `(?s)on here\..*rrl-demo-\w{8} has rate 5\n.*never more than 5 permits in any 1s`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("the demo printed\n%s", &out)
	}
	if n := s.Admin().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the demo left %d keys", n)
	}
}

// Whatever ends the demo early, its error says why, and no key is left.
func TestDemoEndsEarly(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(rdb *redis.Client, cancel func())
		err       error
	}{
		"interrupted": {func(_ *redis.Client, cancel func()) { cancel() }, context.Canceled},
		"limiter deleted": {func(rdb *redis.Client, _ func()) {
			rdb.Del(context.Background(), "x")
		}, rratelimiter.ErrNotInitialized},
	} {
		t.Run(name, func(t *testing.T) {
			fixtures.Bubble(t, func(l *fixtures.Limiter) {
				ctx, cancel := context.WithCancel(l.Context())
				defer cancel()
				time.AfterFunc(950*time.Millisecond, func() { c.meanwhile(l.RDB, cancel) })
				var out strings.Builder
				start := time.Now()
				err := Demo{Redis: l.RDB, Inspect: inspected}.play(ctx, "x", &out)
				if took := time.Since(start); c.err == context.Canceled && took != 950*time.Millisecond {
					t.Errorf("it ended after %v", took)
				}
				if !errors.Is(err, c.err) || strings.Contains(out.String(), "Redis holds") {
					t.Errorf("%v, printed\n%s", err, &out)
				}
				if keys := l.Mini.Keys(); len(keys) != 0 {
					l.Errorf("the demo left %v", keys)
				}
			})
		})
	}
}

// A reply that comes too late is shown, and the demo goes on.
func TestDemoGoesOnAfterALateReply(t *testing.T) {
	fixtures.Bubble(t, func(l *fixtures.Limiter) {
		start := time.Now()
		l.RDB.AddHook(fixtures.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			since := time.Since(start) - 1150*time.Millisecond // when mail asks
			err := next(ctx, cmd)
			if cmd.Name() == "evalsha" && since >= 0 && since < 100*time.Millisecond {
				time.Sleep(300 * time.Millisecond)
			}
			return err
		}))
		var out strings.Builder
		redistest.NoError(l, Demo{Redis: l.RDB, Inspect: inspected}.play(l.Context(), "x", &out))
		const late = "mail    TryAcquire(1, 200ms)  no reply, after 230 ms   "
		for _, want := range []string{late, "Granted: "} {
			if !strings.Contains(out.String(), want) {
				l.Errorf("the demo lacks %q in\n%s", want, &out)
			}
		}
	})
}

// The keys of a demo whose process was killed expire within a minute.
func TestKeysOfAKilledDemoExpire(t *testing.T) {
	fixtures.Bubble(t, func(l *fixtures.Limiter) {
		l.Want(errors.Join(create(l.Context(), l.RateLimiter), l.Acquire(l.Context(), 2)))
		time.Sleep(59 * time.Second)
		if keys := l.Mini.Keys(); len(keys) != 3 {
			l.Errorf("after 59 s there are %v", keys)
		}
		time.Sleep(2 * time.Second)
		if keys := l.Mini.Keys(); len(keys) != 0 {
			l.Errorf("after 61 s there are %v", keys)
		}
	})
}

// An existing limiter is neither used nor deleted.
func TestDemoLeavesAnExistingLimiterAlone(t *testing.T) {
	fixtures.InBubble(t, 1, time.Hour, func(l *fixtures.Limiter) {
		err := Demo{Redis: l.RDB, Inspect: inspected}.play(l.Context(), l.Name(), l.Output())
		fixtures.WantText(l, err, `a limiter called "l" exists already`)
		l.Has(1)
	})
}

// The demo fails if the limiter grants more than the rate.
func TestDemoFailsAboveTheRate(t *testing.T) {
	for permits, want := range map[int64]bool{rate: true, rate + 1: false} {
		log := newTimeline(nil, t.Output())
		log.grants = []grant{{log.start, log.start, permits}}
		if err := log.sumUp(scene(), "./rrl"); (err == nil) != want {
			t.Errorf("%d permits within an interval: %v", permits, err)
		}
	}
}

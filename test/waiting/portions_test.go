package waiting_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/shares"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A loop is callers of one process that acquire permits again and again, and what they got.
type loop struct {
	limiter *rratelimiter.RateLimiter
	callers int
	stop    context.CancelFunc

	mu  sync.Mutex
	got []taking // guarded by mu
}

// A taking is a permit that a caller got.
type taking struct {
	at     time.Time
	waited time.Duration
}

// enters lets callers of one more process acquire permits until they are stopped.
func enters(c *Limiter, all *sync.WaitGroup, callers int) *loop {
	return entersBy(c, redistest.MiniClient(c.T, c.Mini), all, callers, 1)
}

// entersBy is enters for callers that reach Redis by rdb and want several permits each.
func entersBy(c *Limiter, rdb *redis.Client, all *sync.WaitGroup, callers int, permits int64) *loop {
	ctx, stop := context.WithCancel(c.Context())
	client := NewClient(c, rdb, rratelimiter.WithGoOnly())
	l := &loop{limiter: client.RateLimiter("l"), callers: callers, stop: stop}
	for range callers {
		all.Go(func() {
			for came := time.Now(); l.limiter.Acquire(ctx, permits) == nil; came = time.Now() {
				l.mu.Lock()
				l.got = append(l.got, taking{time.Now(), time.Since(came)})
				l.mu.Unlock()
				time.Sleep(rand.N(time.Millisecond)) // as long as a caller takes to come again
			}
		})
	}
	return l
}

// distant returns a connection whose requests and replies each take a time.
func distant(c *Limiter, each func() time.Duration) *redis.Client {
	rdb := redistest.MiniClient(c.T, c.Mini)
	rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		time.Sleep(each())
		err := next(ctx, cmd)
		time.Sleep(each())
		return err
	}))
	return rdb
}

// longestFrom returns the longest wait that began after a time.
func (l *loop) longestFrom(start time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, taken := range l.got {
		if taken.at.Add(-taken.waited).After(start) {
			longest = max(longest, taken.waited)
		}
	}
	return longest
}

// between returns how many permits they got in a span.
func (l *loop) between(from, to time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, taken := range l.got {
		if !taken.at.Before(from) && taken.at.Before(to) {
			n++
		}
	}
	return n
}

// Processes whose callers wait share a limit by the numbers of these callers, wherever two seconds begin.
// Each process gets permits in each second, no caller waits for long, and the limit is used up.
func TestProcessesShareByTheirWaiters(t *testing.T) {
	t.Parallel()
	for _, callers := range [][]int{{20, 20, 20}, {4, 4, 4, 4, 4, 4, 4, 4}, {60, 20}} {
		for _, trip := range []time.Duration{0, 6 * time.Millisecond} {
			t.Run(fmt.Sprint(callers, " at most ", trip, " away"), func(t *testing.T) {
				t.Parallel()
				Bubble(t, func(c *Limiter) { shareByTheirWaiters(c, callers, trip) })
			})
		}
	}
}

func shareByTheirWaiters(c *Limiter, callers []int, trip time.Duration) {
	const rate, span, step = 50, 20, 100 * time.Millisecond
	const leastIndex, leastUsed = 0.98, 0.95
	NoError(c.T, c.SetRate(c.Context(), Overall, rate, time.Second))
	var all sync.WaitGroup
	loops, crowd := make([]*loop, len(callers)), 0
	for i, n := range callers {
		crowd += n
		loops[i] = entersBy(c, distant(c, func() time.Duration { return rand.N(trip/2 + 1) }), &all, n, 1)
	}
	// A turn is a permit for each caller. The first process takes all permits at first.
	turn := time.Duration(crowd) * time.Second / rate
	start := time.Now().Add(2 * max(turn, time.Second))
	time.Sleep(time.Until(start.Add((span + 2) * time.Second)))
	for _, l := range loops {
		l.stop()
	}
	all.Wait()
	sum := 0
	for from := start; from.Before(start.Add(span * time.Second)); from = from.Add(step) {
		got := make([]float64, len(loops))
		for i, l := range loops {
			one := l.between(from, from.Add(time.Second))
			if sum += one; one == 0 {
				c.Errorf("process %d got nothing in the second from %v", i, from.Sub(start))
			}
			got[i] = float64(l.between(from, from.Add(2*time.Second))) / float64(l.callers)
		}
		if index := shares.Index(got); index < leastIndex {
			c.Errorf("two seconds from %v: permits for each caller %.2f, Jain's index %.3f",
				from.Sub(start), got, index)
		}
	}
	if used := float64(sum) * step.Seconds() / (rate * span); used < leastUsed {
		c.Errorf("%.3f of the limit was used", used)
	}
	// The last permit of a turn may come after the pause between the bursts of two intervals: four bursts in
	// eighths of an interval leave five eighths.
	longest := max(2*time.Second, turn+time.Second*5/8)
	for i, l := range loops {
		if waited := l.longestFrom(start); waited > longest {
			c.Errorf("a caller of process %d waited for %v, at most %v may be", i, waited, longest)
		}
	}
}

// A process has its portion wherever it is and whatever it asks for: if it is far away, or its machine is
// slow; if it asks for more than its portion, no later than after a few turns; and if it takes permits by
// Allow as well, which do not count against its callers in line, nor for them when they are given back.
func TestEachProcessHasItsPortion(t *testing.T) {
	t.Parallel()
	const rate, span, third = 50, 20, 20 * 50 / 3
	allows := func(ctx context.Context, l *rratelimiter.RateLimiter) { _, _ = l.Allow(ctx, 1) }
	givesBack := func(ctx context.Context, l *rratelimiter.RateLimiter) {
		if r, err := l.Allow(ctx, 1); err == nil && r.Allowed {
			_ = l.Release(ctx, 1)
		}
	}
	for name, tt := range map[string]struct {
		trip        time.Duration // each way
		callers     int
		permits     int64
		beside      []int                                            // callers of other processes
		also        func(context.Context, *rratelimiter.RateLimiter) // every 2 ms
		least, most int                                              // permits in the span
	}{
		"far away":       {10 * time.Millisecond, 20, 1, []int{20, 20}, nil, third * 85 / 100, span * rate},
		"large requests": {0, 1, 10, []int{60}, nil, span * 7 / 2, span * 7 * 2}, // 7 a second are due
		"Allow":          {0, 20, 1, []int{20}, allows, span, span * rate},
		"Allow, Release": {0, 20, 1, []int{20}, givesBack, span, span * rate * 3 / 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Bubble(t, func(c *Limiter) {
				NoError(c.T, c.SetRate(c.Context(), Overall, rate, time.Second))
				var all sync.WaitGroup
				rdb := distant(c, func() time.Duration { return tt.trip })
				one := entersBy(c, rdb, &all, tt.callers, tt.permits)
				loops := []*loop{one}
				for _, callers := range tt.beside {
					loops = append(loops, enters(c, &all, callers))
				}
				from := time.Now().Add(2 * time.Second)
				for time.Since(from) < span*time.Second {
					time.Sleep(2 * time.Millisecond)
					if tt.also != nil {
						tt.also(c.Context(), one.limiter)
					}
				}
				for _, l := range loops {
					l.stop()
				}
				all.Wait()
				got := int(tt.permits) * one.between(from, from.Add(span*time.Second))
				if got < tt.least || got > tt.most {
					c.Errorf("it got %d permits in %d s, want %d to %d", got, span, tt.least, tt.most)
				}
			})
		})
	}
}

// Permits that were granted to callers that had left count as given back: the other callers use them.
func TestCallersThatLeaveLoseNoPermits(t *testing.T) {
	t.Parallel()
	Bubble(t, func(c *Limiter) {
		const rate, span, trip = 50, 20, 25 * time.Millisecond
		NoError(c.T, c.SetRate(c.Context(), Overall, rate, time.Second))
		ctx, stop := context.WithTimeout(c.Context(), span*time.Second)
		defer stop()
		var all sync.WaitGroup
		var got atomic.Int64
		for range 2 {
			l := NewClient(c, distant(c, func() time.Duration { return trip })).RateLimiter("l")
			for range 8 {
				all.Go(func() {
					for ctx.Err() == nil {
						soon, leave := context.WithTimeout(ctx, rand.N(8*trip))
						if l.Acquire(soon, 1) == nil {
							got.Add(1)
						}
						leave()
					}
				})
			}
		}
		all.Wait()
		if got := got.Load(); got < rate*span*94/100 { // what goes back takes a trip of its own
			c.Errorf("%d of %d permits were used", got, rate*span)
		}
	})
}

// The portion of a process whose callers have gone belongs to the other processes from then on.
func TestNoPortionIsLeftToProcessesThatHaveGone(t *testing.T) {
	t.Parallel()
	Bubble(t, func(c *Limiter) {
		const rate = 50
		NoError(c.T, c.SetRate(c.Context(), Overall, rate, time.Second))
		var all sync.WaitGroup
		gone, stays := enters(c, &all, 40), enters(c, &all, 60)
		time.Sleep(3500 * time.Millisecond)
		gone.stop()
		from := time.Now()
		time.Sleep(3 * time.Second)
		stays.stop()
		all.Wait()
		if got := stays.between(from, from.Add(3*time.Second)); got < 3*rate*95/100 {
			c.Errorf("who stays got %d of %d permits", got, 3*rate)
		}
	})
}

// Of a crowd of processes some 190 count: a call reads and writes a field of 8,000 bytes at most.
func TestSomeProcessesOfACrowdCount(t *testing.T) {
	t.Parallel()
	Bubble(t, func(c *Limiter) {
		const rate, processes = 380, 1000
		NoError(c.T, c.SetRate(c.Context(), Overall, rate, time.Second))
		c.Took(rate, 0, 0)
		var crowd strings.Builder
		till := time.Now().Add(time.Second).UnixMilli()
		for i := range processes {
			fmt.Fprintf(&crowd, "%s%016d 100 %d;", wire.SessionPrefix, i, till)
		}
		c.Mini.HSet("l", wire.Waiting, crowd.String())
		c.Took(1, time.Minute, time.Second)
		if n := strings.Count(c.Mini.HGet("l", wire.Waiting), ";"); n < 185 || n > 200 {
			c.Errorf("%d processes count", n)
		}
	}, rratelimiter.WithGoOnly())
}

// The field says who waits. Whatever it holds, permits go to who asks for them.
func TestTheFieldOfWaitersMayHoldAnything(t *testing.T) {
	t.Parallel()
	Bubble(t, func(c *Limiter) {
		NoError(c.T, c.SetRate(c.Context(), Overall, 2, time.Second))
		now := time.Now()
		waiting := func() string { return c.Mini.HGet("l", wire.Waiting) }
		c.Took(2, 0, 0)
		c.Took(1, time.Minute, time.Second)
		field := waiting()
		who, rest, _ := strings.Cut(field, " ")
		wanted := fmt.Sprintf("1 %d;", now.Add(2*time.Second).UnixMilli()) // an interval and a second
		if !strings.HasPrefix(who, wire.SessionPrefix) || rest != wanted {
			c.Errorf("the field is %q, want a session and %q", field, wanted)
		}
		soon := now.Add(4 * time.Second).UnixMilli()
		for _, hostile := range []string{
			"x", strings.Repeat("x y", 100_000), strings.Repeat("a 1 1;", 100_000), "a 1", "a -1 9;", ";;;",
			fmt.Sprintf("a 99999999999999999999 %d;", soon),
			fmt.Sprintf("a %s %d;", strings.Repeat("9", 400), soon),
			"a 1 " + strings.Repeat("9", 400) + ";", fmt.Sprintf("a 0 %d;", soon), "a 1 9223372036854775807;",
		} {
			c.Mini.HSet("l", wire.Waiting, hostile)
			for range 3 {
				start := time.Now()
				NoError(c.T, c.Acquire(c.Context(), 1))
				if waited := time.Since(start); waited > time.Second+50*time.Millisecond {
					c.Errorf("%.40q: a permit after %v", hostile, waited)
				}
			}
		}
	}, rratelimiter.WithGoOnly())
}

// A scripts counts calls of scripts, and those that heal a limiter.
type scripts struct{ calls, heals atomic.Int64 }

// see counts calls. That of heal.lua has a session, no number, and how far it has come.
func (s *scripts) see(_ context.Context, cmds ...redis.Cmder) error {
	const session, number, done = 7, 8, 9 // arguments of EVALSHA
	for _, cmd := range cmds {
		args := cmd.Args()
		if cmd.Name() != "evalsha" || len(args) <= done {
			continue
		}
		if !strings.HasPrefix(fmt.Sprint(args[session]), "session:") {
			continue
		}
		_, isText := args[done].(string)
		if s.calls.Add(1); args[number] == "" && !isText {
			s.heals.Add(1)
		}
	}
	return nil
}

// Beside Java fewer than one call of 200 heals the limiter, also where the clock of Java is wrong.
func TestFewCallsHeal(t *testing.T) {
	t.Parallel()
	const wrong = 50 * time.Millisecond
	for _, ahead := range []time.Duration{-wrong, 0, wrong} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			const often, each = 100, 3 // permits a second; a few of these are enough
			var seen scripts
			n := 0
			for _, sc := range shares.Scenarios() {
				if sc.Rate*int64(time.Second/sc.Interval) < often {
					continue
				}
				if n++; n%each == 0 {
					Bubble(t, func(c *Limiter) { simulate(c, sc, model{ahead: ahead, sees: seen.see}) })
				}
			}
			calls, heals := seen.calls.Load(), seen.heals.Load()
			t.Logf("%d of %d calls", heals, calls)
			if calls < 1000 || heals*200 > calls {
				t.Errorf("%d of %d calls healed the limiter", heals, calls)
			}
		})
	}
}

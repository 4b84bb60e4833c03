package waiting_test

import (
	"context"
	"crypto/rand"
	_ "embed" // testdata
	mrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/shares"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A redisson models how a Redisson instance waits (redisson-4.7.0): a refused call sleeps until the
// oldest record is due, wakes up at the next tick of a timer, and asks again. compat_test plays
// some of the scenarios with the real one.
type redisson struct {
	*redis.Client
	shares.Limit
	model
	tick, phase time.Duration
}

// A model says how Java differs from the usual one, and who sees the calls of Go.
type model struct {
	format int           // of Formats
	ahead  time.Duration // its clock; below 0 it is behind
	sees   redistest.Hook
}

//go:embed testdata/java_takes.lua
var javaTakesText string

var javaTakes = redis.NewScript(javaTakesText)

// newRedisson returns an instance with a timer like those of Redisson: a tick of 10 to 49 ms, or 100 ms.
func newRedisson(c *Limiter, limit shares.Limit, m model) *redisson {
	tick := 10*time.Millisecond + mrand.N(80*time.Millisecond)
	if tick >= 50*time.Millisecond {
		tick = 100 * time.Millisecond
	}
	return &redisson{redistest.MiniClient(c.T, c.Mini), limit, m, tick, mrand.N(tick)}
}

// name returns a new record without its permits.
func (r *redisson) name() string {
	f := Formats[r.format]
	if f.Since == FI { // a float, of which no byte is known
		return rand.Text()[:f.Size-4]
	}
	return f.Header + rand.Text()[:f.Size-4-len(f.Header)]
}

// sleep sleeps for d, and until the next tick.
func (r *redisson) sleep(ctx context.Context, d time.Duration) {
	now := time.Duration(time.Now().UnixNano()) - r.phase
	select {
	case <-time.After((now + d).Truncate(r.tick) + r.tick - now):
	case <-ctx.Done():
	}
}

func (r *redisson) tryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	const trip, more = 200 * time.Microsecond, 3 * time.Millisecond
	for began := time.Now(); ; {
		time.Sleep(trip)
		now := time.Now().Add(r.ahead).UnixMilli()
		ms, err := javaTakes.Run(ctx, r, []string{"{l}:value", "{l}:permits"}, now,
			r.Interval.Milliseconds(), r.Rate, permits, r.name()).Int64()
		if err != nil || ms == 0 {
			return err == nil, err
		}
		due := time.Duration(ms)*time.Millisecond + more
		if left := timeout - time.Since(began); left < due {
			if timeout > 0 {
				r.sleep(ctx, max(0, left))
			} else {
				time.Sleep(more) // its callers ask again at once, and would ask for most of the test's time
			}
			return false, ctx.Err()
		}
		r.sleep(ctx, due)
	}
}

// Go and Java share a limit in every interval, whoever comes first, however often Java asks.
func TestSharesBesideJava(t *testing.T) {
	t.Parallel()
	for _, sc := range shares.Scenarios() {
		t.Run(sc.String(), func(t *testing.T) {
			t.Parallel()
			sharesBeside(t, sc, model{})
		})
	}
}

// sharesBeside expects Go to share with Java as a scenario says.
func sharesBeside(t *testing.T, sc shares.Scenario, m model) {
	t.Helper()
	var results []shares.Result
	play := func() { Bubble(t, func(c *Limiter) { results = append(results, simulate(c, sc, m)) }) }
	play()
	if _, wrong := sc.Judge(results); wrong != "" { // chance may do that once
		play()
		play()
	}
	says, wrong := sc.Judge(results)
	t.Log(says)
	if wrong != "" {
		t.Errorf("out of bounds: %s", wrong)
	}
}

// A process with one caller is served beside Java and a process with many.
func TestASmallProcessIsServedBesideJava(t *testing.T) {
	t.Parallel()
	Bubble(t, func(c *Limiter) {
		limit := shares.Limit{Rate: 10, Interval: time.Second}
		sc := shares.Scenario{Limit: limit, Go: shares.Side{Clients: 1, Callers: 1}}
		NoError(c.T, c.SetRate(c.Context(), Overall, limit.Rate, limit.Interval))
		var got [4]shares.Grants
		var all sync.WaitGroup
		start := time.Now()
		for i, callers := range []int{1, 1, 50, 8} { // sessions have an order
			try := newRedisson(c, limit, model{}).tryAcquire
			if i < 3 {
				try = NewClient(c, redistest.MiniClient(c.T, c.Mini)).RateLimiter("l").TryAcquire
			}
			all.Go(func() {
				var err error
				side := shares.Side{Callers: callers}
				got[i], err = shares.Play(c.Context(), sc, side, start, []shares.Try{try})
				NoError(c.T, err)
			})
		}
		all.Wait()
		for i, least := range []int{4, 4, 30, 10} {
			if n := len(got[i].All); n < least {
				t.Errorf("process %d got %d permits of 180", i, n)
			}
		}
	})
}

// Java is known by its records, in each format.
func TestSharesBesideAnyVersionOfJava(t *testing.T) {
	t.Parallel()
	for i, format := range Formats {
		t.Run(format.Since, func(t *testing.T) {
			t.Parallel()
			sc := shares.Scenarios()[0]
			sc.Options = []rratelimiter.Option{rratelimiter.WithRedisson(format.Since)}
			sharesBeside(t, sc, model{format: i})
		})
	}
}

func simulate(c *Limiter, sc shares.Scenario, m model) shares.Result {
	NoError(c.T, c.SetRate(c.Context(), Overall, sc.Rate, sc.Interval))
	goes, javas := make([]shares.Try, sc.Go.Clients), make([]shares.Try, sc.Java.Clients)
	for i := range goes {
		rdb := distant(c, func() time.Duration { return mrand.N(300 * time.Microsecond) })
		if m.sees != nil {
			rdb.AddHook(m.sees)
		}
		goes[i] = sc.Try(NewClient(c, rdb, sc.Options...).RateLimiter("l"))
	}
	for i := range javas {
		javas[i] = newRedisson(c, sc.Limit, m).tryAcquire
	}
	start := time.Now()
	java := make(chan shares.Grants, 1)
	go func() {
		grants, err := shares.Play(c.Context(), sc, sc.Java, start, javas)
		NoError(c.T, err)
		java <- grants
	}()
	golang, err := shares.Play(c.Context(), sc, sc.Go, start, goes)
	NoError(c.T, err)
	return sc.Measure(start, golang, <-java)
}

package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main of rrl does
	redistest.VerifyNoLeaks(m)
}

func TestBadPlan(t *testing.T) {
	for want, change := range map[string]func(p *Plan){
		"--callers is 0, must be between 1 and 10000":         func(p *Plan) { p.Callers = 0 },
		"--callers is 10001, must":                            func(p *Plan) { p.Callers = 10_001 },
		"--permits is 0, must be at least 1":                  func(p *Plan) { p.Permits = 0 },
		"--timeout is -1ns, must be between 0 and 1h":         func(p *Plan) { p.Timeout = -1 },
		"--timeout is 1h0m1s, must":                           func(p *Plan) { p.Timeout = Longest + 1e9 },
		"--rate is -1, must be 0, or between 0.001 and 1e+06": func(p *Plan) { p.Rate = -1 },
		"--rate is NaN, must":                                 func(p *Plan) { p.Rate = math.NaN() },
		"--rate is +Inf, must":                                func(p *Plan) { p.Rate = math.Inf(1) },
		"--rate is 0.0001, must":                              func(p *Plan) { p.Rate = 0.0001 },
		"--for is 0s, must be between 1ms and 1h":             func(p *Plan) { p.For = 0 },
		"--for is 1h0m0.001s, must":                           func(p *Plan) { p.For = Longest + 1e6 },
		"--calls is -1, must be at least 0":                   func(p *Plan) { p.Calls = -1 },
	} {
		p := Plan{Callers: 1, Permits: 1, For: time.Second}
		redistest.NoError(t, p.Validate())
		change(&p)
		if err := p.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// limiter returns a limiter of 10 permits a second, in the time of a bubble.
func limiter(t *testing.T) (*miniredis.Miniredis, *rratelimiter.RateLimiter, rratelimiter.Config) {
	m := redistest.Mini(t)
	c := rratelimiter.New(redistest.MiniClient(t, m))
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter("api")
	config := rratelimiter.Config{Type: rratelimiter.Overall, Rate: 10, Interval: time.Second}
	redistest.NoError(t, l.SetRate(t.Context(), config.Type, config.Rate, config.Interval))
	return m, l, config
}

func TestLoad(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		plan             Plan
		granted, refused int64
	}{
		"at a rate":       {Plan{Callers: 4, Permits: 1, For: 2950 * ms, Rate: 20}, 30, 29},
		"so many calls":   {Plan{Callers: 7, Permits: 5, For: time.Second, Calls: 13}, 2, 11},
		"one that waits":  {Plan{Callers: 1, Permits: 10, For: 2500 * ms, Timeout: time.Minute}, 4, 0},
		"until a timeout": {Plan{Callers: 1, Permits: 10, For: time.Second, Timeout: 400 * ms}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l, config := limiter(t)
				shown := 0
				r := New(l, config, c.plan).Do(t.Context(), 100*time.Millisecond, func(p Progress) {
					shown++
					if p.Done < 0 || p.Done > 1 || p.Failed > 0 ||
						p.Granted > c.granted || p.Refused > c.refused {
						t.Errorf("%+v", p)
					}
				})
				if r.Granted.Calls != c.granted || r.Refused.Calls != c.refused || r.Failed != 0 ||
					r.Calls != c.granted+c.refused || r.Permits != c.granted*c.plan.Permits {
					t.Errorf("%+v", r)
				}
				if r.Worst != (Worst{Permits: 10, Rate: 10, Checked: true}) {
					t.Errorf("%+v", r.Worst)
				}
				if r.Seconds > 0.1 && shown == 0 {
					t.Error("no progress was shown")
				}
			})
		})
	}
}

// A call that waits takes as long as it waits.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, config := limiter(t)
		plan := Plan{Callers: 1, Permits: 10, For: 1500 * time.Millisecond, Timeout: 10 * time.Second}
		r := New(l, config, plan).Do(t.Context(), time.Second, func(Progress) {})
		g := r.Granted // the first call is granted at once; nobody promises when a waiter is, to the ms
		if g.Calls != 3 || g.P50 < 999 || g.P50 > 1300 || g.P999 < g.P50 || g.Max < g.P999 {
			t.Errorf("%+v", g)
		}
		if r.Refused != (Latency{}) {
			t.Errorf("%+v", r.Refused)
		}
	})
}

// Errors are counted by their kind, and a caller that fails does not try again at once.
func TestLoadWithErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l, config := limiter(t)
		time.AfterFunc(950*time.Millisecond, func() { m.SetError("OOM command not allowed") })
		time.AfterFunc(1950*time.Millisecond, func() {
			m.SetError("")
			m.FlushAll()
		})
		r := New(l, config, Plan{Callers: 2, Permits: 1, For: 3 * time.Second, Rate: 1000}).
			Do(t.Context(), time.Second, func(Progress) {})
		known := r.Errors["Redis replies OOM"] + r.Errors["no rate is set"]
		if r.Granted.Calls != 10 || len(r.Errors) != 2 || r.Failed != known ||
			r.Failed < 30 || r.Failed > 42 {
			t.Errorf("%+v", r)
		}
		if r.Worst.Checked { // nobody knows what the rate is
			t.Errorf("%+v", r.Worst)
		}
	})
}

// What was measured before an interruption is there, and the calls that it ended have not failed.
func TestInterruptedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, config := limiter(t)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		r := New(l, config, Plan{Callers: 25, Permits: 1, For: time.Minute, Timeout: time.Minute}).
			Do(ctx, time.Second, func(Progress) {})
		if r.Granted.Calls != 20 || r.Calls != 20 || r.Seconds < 1.5 || r.Seconds > 1.6 || !r.Worst.Checked {
			t.Errorf("%+v", r)
		}
	})
}

// A rate that was changed meanwhile is no limit to check.
func TestChangedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, config := limiter(t)
		time.AfterFunc(500*time.Millisecond, func() {
			if err := l.SetRate(t.Context(), config.Type, 50, time.Second); err != nil {
				t.Error(err)
			}
		})
		r := New(l, config, Plan{Callers: 1, Permits: 1, For: time.Second, Rate: 100}).
			Do(t.Context(), time.Second, func(Progress) {})
		if r.Worst.Checked || r.Worst.Broken() {
			t.Errorf("%+v", r.Worst)
		}
	})
}

func TestKindsOfErrors(t *testing.T) {
	f := newFigures(time.Now(), time.Second)
	for i := range 100 {
		f.fail(redisError(fmt.Sprintf("CODE%d text", i)))
	}
	f.fail(fmt.Errorf("wrapped: %w", rratelimiter.ErrNoAnswer))
	f.fail(io.EOF)
	f.fail(errors.New("what"))
	if f.failed != 103 || len(f.kinds) > 21 || f.kinds["other"] != 83 || f.kinds["Redis replies CODE7"] != 1 {
		t.Errorf("%d, %v", f.failed, f.kinds)
	}
	for want, err := range map[string]error{
		"no answer from Redis":    rratelimiter.ErrNoAnswer,
		"permits exceed the rate": rratelimiter.ErrPermitsExceedRate,
	} {
		if got := kindOf(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

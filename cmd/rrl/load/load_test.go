package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/test/fixtures"
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

// tenASecond is the rate of all limiters.
var tenASecond = rratelimiter.Config{Type: rratelimiter.Overall, Rate: 10, Interval: time.Second}

// inBubble runs a spec with such a limiter in fake time.
func inBubble(t *testing.T, spec func(t *testing.T, l *fixtures.Limiter)) {
	t.Helper()
	fixtures.InBubble(t, tenASecond.Rate, tenASecond.Interval, func(l *fixtures.Limiter) { spec(l.T, l) })
}

func TestLoad(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		plan             Plan
		granted, refused int64
	}{
		"at a rate":       {Plan{Callers: 4, Permits: 1, For: 2950 * ms, Rate: 20}, 30, 29},
		"13 calls":        {Plan{Callers: 7, Permits: 5, For: time.Second, Calls: 13}, 2, 11},
		"one that waits":  {Plan{Callers: 1, Permits: 10, For: 2500 * ms, Timeout: time.Minute}, 4, 0},
		"until a timeout": {Plan{Callers: 1, Permits: 10, For: time.Second, Timeout: 400 * ms}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *fixtures.Limiter) {
				shown := 0
				load := New(l.RateLimiter, tenASecond, c.plan)
				r := load.Do(t.Context(), 100*time.Millisecond, func(p Progress) {
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

// The latency of a call includes its wait.
func TestLatency(t *testing.T) {
	inBubble(t, func(t *testing.T, l *fixtures.Limiter) {
		plan := Plan{Callers: 1, Permits: 10, For: 1500 * time.Millisecond, Timeout: 10 * time.Second}
		r := New(l.RateLimiter, tenASecond, plan).Do(t.Context(), time.Second, func(Progress) {})
		g := r.Granted // the first call at once; when a waiter is served is not promised to the ms
		if g.Calls != 3 || g.P50 < 999 || g.P50 > 1300 || g.P999 < g.P50 || g.Max < g.P999 {
			t.Errorf("%+v", g)
		}
		if r.Refused != (Latency{}) {
			t.Errorf("%+v", r.Refused)
		}
	})
}

// Errors are counted by their kind, and a caller waits after an error.
func TestLoadWithErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, l *fixtures.Limiter) {
		time.AfterFunc(950*time.Millisecond, func() { l.Mini.SetError("OOM command not allowed") })
		time.AfterFunc(1950*time.Millisecond, func() {
			l.Mini.SetError("")
			l.Mini.FlushAll()
		})
		r := New(l.RateLimiter, tenASecond, Plan{Callers: 2, Permits: 1, For: 3 * time.Second, Rate: 1000}).
			Do(t.Context(), time.Second, func(Progress) {})
		// A script that runs when miniredis begins to fail meets the error in a command of its own.
		known := r.Errors["Redis replies OOM"] + r.Errors["no rate is set"] + r.Errors["Redis replies ERR"]
		delete(r.Errors, "Redis replies ERR")
		if r.Granted.Calls != 10 || len(r.Errors) != 2 || r.Failed != known ||
			r.Failed < 30 || r.Failed > 42 {
			t.Errorf("%+v", r)
		}
		if r.Worst.Checked { // although the rate is unknown
			t.Errorf("%+v", r.Worst)
		}
	})
}

// An interrupted load reports its measurements so far; the calls that it ended do not count as failed.
func TestInterruptedLoad(t *testing.T) {
	inBubble(t, func(t *testing.T, l *fixtures.Limiter) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		plan := Plan{Callers: 25, Permits: 1, For: time.Minute, Timeout: time.Minute}
		r := New(l.RateLimiter, tenASecond, plan).Do(ctx, time.Second, func(Progress) {})
		if r.Granted.Calls != 20 || r.Calls != 20 || r.Seconds < 1.5 || r.Seconds > 1.6 || !r.Worst.Checked {
			t.Errorf("%+v", r)
		}
	})
}

// A load does not check a rate that changed meanwhile.
func TestChangedRateIsNotChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, l *fixtures.Limiter) {
		time.AfterFunc(500*time.Millisecond, func() {
			if err := l.SetRate(t.Context(), tenASecond.Type, 50, time.Second); err != nil {
				t.Error(err)
			}
		})
		r := New(l.RateLimiter, tenASecond, Plan{Callers: 1, Permits: 1, For: time.Second, Rate: 100}).
			Do(t.Context(), time.Second, func(Progress) {})
		if r.Worst.Checked || r.Worst.Broken() {
			t.Errorf("%+v", r.Worst)
		}
	})
}

func TestKindsOfErrors(t *testing.T) {
	f := newFigures(time.Now(), time.Second)
	for i := range 100 {
		f.fail(fixtures.RedisError(fmt.Sprintf("CODE%d text", i)))
	}
	f.fail(fmt.Errorf("wrapped: %w", rratelimiter.ErrNoAnswer))
	f.fail(io.EOF)
	f.fail(errors.New("what"))
	if f.failed != 103 || len(f.kinds) > 21 || f.kinds["other"] != 83 || f.kinds["Redis replies CODE7"] != 1 {
		t.Errorf("%d, %v", f.failed, f.kinds)
	}
	for want, err := range map[string]error{
		"no reply from Redis":     rratelimiter.ErrNoAnswer,
		"permits exceed the rate": rratelimiter.ErrPermitsExceedRate,
	} {
		if got := kindOf(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

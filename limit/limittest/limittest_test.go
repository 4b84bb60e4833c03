package limittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/fixedwindow"
	"github.com/redisson-go/rratelimiter/limit/leakybucket"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A memory is a correct limiter of each algorithm, until a test breaks it.
type memory struct {
	limit.Releaser
	rate     int64
	interval time.Duration

	// Of limiters that a test breaks:
	since time.Time // a call
	used  atomic.Int64
}

func newMemory(algorithm Algorithm, rate int64, interval time.Duration, opts ...limit.Option) *memory {
	m := &memory{rate: rate, interval: interval}
	var err error
	switch algorithm {
	case SlidingLog:
		m.Releaser, err = slidingwindow.Log{Rate: rate, Interval: interval}.InMemory(opts...)
	case TokenBucket:
		b := tokenbucket.Bucket{Capacity: rate, Rate: float64(rate), Interval: interval}
		m.Releaser, err = b.InMemory(opts...)
	case FixedWindow:
		m.Releaser, err = fixedwindow.Window{Rate: rate, Interval: interval}.InMemory(opts...)
	case Paced:
		q := leakybucket.Queue{Rate: rate, Interval: interval, Capacity: rate}
		m.Releaser, err = q.InMemory(opts...)
	}
	if err != nil {
		panic(err)
	}
	return m
}

// A keyed has a memory for each key.
type keyed struct {
	rate     int64
	interval time.Duration

	// Of a Keyed that a test breaks:
	breaks         func(key string) string // what it makes of a key
	most           int                     // keys
	spoils, spoilt string                  // a key that makes another one fail from then on

	mu   sync.Mutex
	keys map[string]*memory
}

// For implements limit.Keyed.
func (s *keyed) For(key string) limit.Limiter {
	return limit.Func(func(ctx context.Context, n int64) (limit.Result, error) {
		return s.allow(ctx, key, n)
	})
}

func (s *keyed) allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	if key == "" {
		return limit.Result{}, fmt.Errorf("%w: an empty key", limit.ErrInvalidArgument)
	}
	if s.breaks != nil {
		key = s.breaks(key)
	}
	s.mu.Lock()
	if key == s.spoilt && (key == s.spoils || s.keys[s.spoils] != nil) {
		s.mu.Unlock()
		return limit.Result{}, errors.New("not a hash")
	}
	m := s.keys[key]
	if m == nil {
		if s.most > 0 && len(s.keys) == s.most {
			clear(s.keys)
		}
		m = newMemory(SlidingLog, s.rate, s.interval)
		s.keys[key] = m
	}
	s.mu.Unlock()
	return m.Allow(ctx, n)
}

func newKeyed(rate int64, interval time.Duration) *keyed {
	return &keyed{rate: rate, interval: interval, keys: map[string]*memory{}}
}

// specOf returns the spec of a correct limiter.
func specOf(algorithm Algorithm) Spec {
	return Spec{
		New: func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
			return newMemory(algorithm, rate, interval)
		},
		Pair: func(_ *testing.T, rate int64, interval time.Duration) (limit.Limiter, limit.Limiter) {
			l := newMemory(algorithm, rate, interval)
			return l, l
		},
		Algorithm: algorithm,
		Tolerance: time.Millisecond,
		Synctest:  true,
	}
}

// A limiter may use a fake clock.
func TestALimiterWithAFakeClockPasses(t *testing.T) {
	var ns atomic.Int64
	spec := specOf(SlidingLog)
	spec.Synctest = false
	spec.Now = func() time.Time { return time.Unix(0, ns.Load()) }
	spec.Sleep = func(d time.Duration) { ns.Add(int64(d)) }
	spec.New = func(_ *testing.T, rate int64, interval time.Duration) limit.Limiter {
		return newMemory(SlidingLog, rate, interval, limit.WithClock(spec.Now))
	}
	spec.Pair = nil
	start := time.Now()
	TestLimiter(t, spec)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%v in fake time", took)
	}
}

// Each check rejects the limiters that are broken for it, with an error that says how.
func TestBrokenLimitersFail(t *testing.T) {
	checks := slices.Concat(limiterChecks, keyedChecks)
	for _, c := range checks {
		for _, b := range allBroken[c.name] {
			t.Run(c.name+"/"+b.what, func(t *testing.T) {
				var s suite
				b.breaks(&s)
				s.spec = s.spec.complete()
				wantFailure(t, s, c, b.text)
			})
		}
		if allBroken[c.name] == nil {
			t.Errorf("no limiter is broken for the check %q", c.name)
		}
	}
	if len(allBroken) != len(checks) {
		t.Errorf("%d checks have broken limiters, and there are %d", len(allBroken), len(checks))
	}
}

func wantFailure(t *testing.T, s suite, c check, text string) {
	t.Helper()
	s.enter(t, func(t *testing.T) {
		if err := s.try(t, c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, want one that says %q", err, text)
		}
	})
}

// A check whose calls take too long is tried again, and fails in the end.
func TestSlowCallsAreTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		slow int // the number of slow calls
		want string
	}{
		{"at first", 3, ""},
		{"always", 1 << 30, "tried 20 times"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, calls := specOf(SlidingLog), 0
			spec.New = changed(SlidingLog, func(c *call) {
				if calls++; calls <= tt.slow {
					time.Sleep(c.m.interval)
				}
			}, nothing)
			s := suite{spec: spec.complete()}
			s.enter(t, func(t *testing.T) {
				err := s.try(t, check{check: rateAtOnce})
				if (err == nil) != (tt.want == "") ||
					err != nil && !(strings.Contains(err.Error(), tt.want) && errors.Is(err, ErrTooSlow)) {
					t.Errorf("the error is %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// A panic of a limiter is a failure of its check, also in a goroutine of the check. Other panics pass.
func TestAPanicOfALimiterIsAFailure(t *testing.T) {
	spec := specOf(SlidingLog)
	spec.New = changed(SlidingLog, func(*call) { panic("oh") }, nothing)
	for _, c := range []check{{check: rateAtOnce}, {check: manyCallers}, {check: endingContext}} {
		wantFailure(t, suite{spec: spec.complete()}, c, "a panic: oh")
	}
	defer func() {
		if p := recover(); p != "new" {
			t.Errorf("a panic of New became %v", p)
		}
	}()
	spec.New = func(*testing.T, int64, time.Duration) limit.Limiter { panic("new") }
	_ = suite{spec: spec.complete()}.try(t, check{check: rateAtOnce})
}

// Check finds exactly the broken rules, and does not fail the test.
func TestCheckFindsBrokenRules(t *testing.T) {
	spec := specOf(SlidingLog)
	spec.New = changed(SlidingLog, nothing, func(c *call) { c.Limit = 0 })
	wantBroken(t, Check(t, spec), len(limiterChecks),
		"Limit and Interval are those of the limiter", "a Result agrees with itself")
	spec.Pair = nil
	if found := Check(t, spec); len(found) != len(limiterChecks)-1 {
		t.Errorf("%d findings without a Pair", len(found))
	}
	found := CheckKeyed(t, KeyedSpec[limit.Limiter]{
		New: func(_ *testing.T, rate int64, interval time.Duration) limit.Keyed[limit.Limiter] {
			s := newKeyed(rate, interval)
			s.breaks = strings.ToLower
			return s
		},
		Synctest: true,
	})
	wantBroken(t, found, len(limiterChecks)-1+len(keyedChecks),
		"a strange key is refused or has a limit of its own")
}

// wantBroken expects n findings, of which some rules are broken.
func wantBroken(t *testing.T, found []Finding, n int, broken ...string) {
	t.Helper()
	var got []string
	for _, f := range found {
		if f.Err != nil {
			got = append(got, f.Rule)
		}
	}
	if len(found) != n || strings.Join(got, "; ") != strings.Join(broken, "; ") {
		t.Errorf("%d findings, want %d; broken: %q, want %q", len(found), n, got, broken)
	}
}

package limittest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// A memory is a correct limiter of each algorithm, until something in it is broken.
type memory struct {
	algorithm Algorithm
	rate      int64
	interval  time.Duration
	now       func() time.Time

	mu     sync.Mutex
	grants []answer  // of a sliding log
	filled float64   // of a token bucket, at since
	used   int64     // of a fixed window, which began at since
	since  time.Time // zero before the first call; of what is paced: when nothing is owed
	top    float64   // the most that a bucket has; the rate, unless broken
}

func newMemory(algorithm Algorithm, rate int64, interval time.Duration) *memory {
	return &memory{
		algorithm: algorithm, rate: rate, interval: interval, now: time.Now, top: float64(rate),
	}
}

// check returns the errors of package limit.
func (m *memory) check(ctx context.Context, n int64) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("memory: %w", ctx.Err())
	case n < 1:
		return fmt.Errorf("%w: n is %d", limit.ErrInvalidArgument, n)
	case n > m.rate:
		return fmt.Errorf("%w: n is %d", limit.ErrPermitsExceedRate, n)
	}
	return nil
}

func (m *memory) Allow(ctx context.Context, n int64) (limit.Result, error) {
	if err := m.check(ctx, n); err != nil {
		return limit.Result{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := limit.Result{Name: "memory", Limit: m.rate, Interval: m.interval}
	left, take := m.log, m.take
	switch m.algorithm {
	case TokenBucket:
		left = m.bucket
	case FixedWindow:
		left = m.window
	case Paced:
		left = m.paced
	}
	r.Remaining, r.RetryAfter, _ = left(n)
	if r.Allowed = r.Remaining >= n; r.Allowed {
		take(n)
	}
	r.Remaining, _, r.ResetAfter = left(n)
	return r, nil
}

// take notes a grant.
func (m *memory) take(n int64) {
	now := m.now()
	m.grants = append(m.grants, answer{start: now, n: n})
	m.filled -= float64(n)
	m.used += n
	if m.algorithm == Paced {
		m.since = now.Add(m.interval * time.Duration(n) / time.Duration(m.rate))
	}
}

// log returns what is left, and when n and all are back.
func (m *memory) log(n int64) (left int64, retry, reset time.Duration) {
	now := m.now()
	for len(m.grants) > 0 && !m.grants[0].start.Add(m.interval).After(now) {
		m.grants = m.grants[1:]
	}
	left = m.rate
	for _, g := range m.grants {
		left -= g.n
	}
	have := left
	for _, g := range m.grants {
		reset = g.start.Add(m.interval).Sub(now)
		if have < n {
			retry = reset
		}
		have += g.n
	}
	return left, retry, reset
}

// bucket is log for a token bucket.
func (m *memory) bucket(n int64) (left int64, retry, reset time.Duration) {
	now := m.now()
	if m.since.IsZero() {
		m.filled = float64(m.rate)
	} else {
		m.filled = min(m.top, m.filled+float64(now.Sub(m.since))*float64(m.rate)/float64(m.interval))
	}
	m.since = now
	after := func(n float64) time.Duration {
		if n <= m.filled {
			return 0
		}
		return time.Duration((n-m.filled)*float64(m.interval)/float64(m.rate)) + time.Microsecond
	}
	return int64(m.filled + 1e-9), after(float64(n)), after(float64(m.rate))
}

// window is log for a fixed window.
func (m *memory) window(n int64) (left int64, retry, reset time.Duration) {
	now := m.now()
	if !now.Before(m.since.Add(m.interval)) {
		m.since, m.used = now.Truncate(m.interval), 0
	}
	end := m.since.Add(m.interval).Sub(now)
	if m.used > 0 {
		reset = end
	}
	if left = m.rate - m.used; left < n {
		retry = end
	}
	return left, retry, reset
}

// paced is log for a queue.
func (m *memory) paced(int64) (left int64, retry, reset time.Duration) {
	if reset = max(0, m.since.Sub(m.now())); m.since.IsZero() || reset == 0 {
		return m.rate, 0, 0
	}
	return 0, reset, reset
}

// A shelf has a memory for each key.
type shelf struct {
	rate      int64
	interval  time.Duration
	algorithm Algorithm
	breaks    func(key string) string // what a broken one makes of a key
	most      int                     // how many keys a broken one has, at most

	mu   sync.Mutex
	keys map[string]*memory
}

func (s *shelf) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
	if key == "" {
		return limit.Result{}, fmt.Errorf("%w: an empty key", limit.ErrInvalidArgument)
	}
	if s.breaks != nil {
		key = s.breaks(key)
	}
	s.mu.Lock()
	m := s.keys[key]
	if m == nil {
		if s.most > 0 && len(s.keys) == s.most {
			clear(s.keys)
		}
		m = newMemory(s.algorithm, s.rate, s.interval)
		s.keys[key] = m
	}
	s.mu.Unlock()
	return m.Allow(ctx, n)
}

func newShelf(_ *testing.T, rate int64, interval time.Duration) *shelf {
	return &shelf{rate: rate, interval: interval, keys: map[string]*memory{}}
}

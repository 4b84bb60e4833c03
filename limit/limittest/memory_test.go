package limittest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	busy  sync.Mutex
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

func (s *keyed) Allow(ctx context.Context, key string, n int64) (limit.Result, error) {
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

package live

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main does
	redistest.VerifyNoLeaks(m)
}

// A scenario is limiters in a miniredis, in a bubble, and a screen that shows them.
type scenario struct {
	t   *testing.T
	m   *miniredis.Miniredis
	rdb *redis.Client
	gos map[string]*rratelimiter.Client // one for each limiter: a Client counts its requests over all
	w   *Watch
	model
}

// newScenario returns a scenario with limiters that are not set yet.
func newScenario(t *testing.T, names ...string) *scenario {
	m := redistest.Mini(t)
	s := &scenario{t: t, m: m, rdb: redistest.MiniClient(t, m)}
	s.gos = map[string]*rratelimiter.Client{}
	s.w = &Watch{Redis: s.rdb, Where: "Redis at localhost:6379", Every: time.Second}
	for _, name := range names {
		s.w.Targets = append(s.w.Targets, &Target{Name: name, Hash: name})
	}
	fresh := newModel(s.w)
	s.where, s.every, s.panels, s.width, s.height = fresh.where, fresh.every, fresh.panels, 80, 24
	return s
}

func (s *scenario) set(
	name string, typ rratelimiter.RateType, rate int64, interval time.Duration,
	opts ...rratelimiter.RateOption,
) {
	s.t.Helper()
	c, ok := s.gos[name]
	if !ok {
		c = rratelimiter.New(redistest.MiniClient(s.t, s.m), rratelimiter.WithID("service-1"))
		s.t.Cleanup(func() { _ = c.Close() })
		s.gos[name] = c
	}
	redistest.NoError(s.t, c.RateLimiter(name).SetRate(s.t.Context(), typ, rate, interval, opts...))
}

// goTakes takes a permit in each of n calls of Go.
func (s *scenario) goTakes(name string, n int) {
	for range n {
		if _, err := s.gos[name].RateLimiter(name).TryAcquire(s.t.Context(), 1, 0); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	}
}

// javaTakes writes a grant as Java does.
func (s *scenario) javaTakes(name string, permits uint32) {
	ctx, now := s.t.Context(), time.Now()
	record := redistest.JavaRecord(now.UnixNano()%1e16, permits)
	s.rdb.ZAdd(ctx, "{"+name+"}:permits", redis.Z{Score: float64(now.UnixMilli()), Member: record})
	s.rdb.DecrBy(ctx, "{"+name+"}:value", int64(permits))
}

// run looks once a second, and calls act ten times a second between the looks. No two of these coincide, so
// that the result is the same each time.
func (s *scenario) run(seconds int, act func(tenth int)) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var actor sync.WaitGroup
	actor.Go(func() {
		time.Sleep(50 * time.Millisecond)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			if act != nil {
				act(i)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	var mu sync.Mutex
	s.w.Count = seconds + 1
	s.w.looks(ctx, &s.paused, func(l look) {
		mu.Lock()
		defer mu.Unlock()
		l.at = l.at.UTC()
		s.Update(l)
	})
	cancel()
	actor.Wait()
}

package formtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// alike sends the same calls at the same times to the form in memory and to that on
// Redis. Each result must be the same, to the microsecond.
func (s Suite) alike(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(t, 20)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 16))
			rate := []int64{1, 2, 3, 7, 10, 100, 999}[random.IntN(7)]
			interval := []time.Duration{
				5 * time.Millisecond, 70 * time.Millisecond, time.Second, 61 * time.Second, 24 * time.Hour,
			}[random.IntN(5)]
			m := redistest.Mini(t)
			a := s.New(rate, interval)
			memory := redistest.Must(a.InMemoryKeyed())(t)
			shared := redistest.Must(a.OnRedisKeyed(redistest.MiniClient(t, m), "name"))(t)
			p := pair{
				t: t, m: m, memory: memory, shared: shared, rate: rate, interval: interval, random: random,
				grain: s.Grain,
			}
			for range 120 {
				p.step()
			}
			if t.Failed() {
				t.Fatalf("seed %d: rate %d, interval %v, in the end:\n%s", seed, rate, interval, m.Dump())
			}
		})
	}
}

// A pair is both forms of one limiter.
type pair struct {
	t              *testing.T
	m              *miniredis.Miniredis
	memory, shared limit.KeyedReleaser
	rate           int64
	interval       time.Duration
	grain          time.Duration
	random         *rand.Rand
	last           limit.Result
}

// step lets some time pass and makes a call.
func (p *pair) step() {
	p.t.Helper()
	time.Sleep(max(0, p.pause()).Truncate(p.grain))
	key := []string{"one", "other"}[p.random.IntN(2)]
	n := 1 + p.random.Int64N(p.rate)
	if p.random.IntN(2) == 0 {
		n = 1
	}
	if p.random.IntN(6) == 0 {
		one, other := p.memory.Release(p.t.Context(), key, n), p.shared.Release(p.t.Context(), key, n)
		if one != nil || other != nil {
			p.t.Errorf("Release(%q, %d): in memory %v, on Redis %v", key, n, one, other)
		}
	} else {
		p.asks(key, n)
	}
	for _, key := range p.m.Keys() {
		if ttl := p.m.TTL(key); ttl <= 0 || ttl > 3*p.interval+time.Second {
			p.t.Errorf("the time to live of %q is %v", key, ttl)
		}
	}
}

// asks calls Allow of both.
func (p *pair) asks(key string, n int64) {
	p.t.Helper()
	one := redistest.Must(p.memory.Allow(p.t.Context(), key, n))(p.t)
	other := redistest.Must(p.shared.Allow(p.t.Context(), key, n))(p.t)
	p.last, other.Name = one, one.Name
	if want, got := fmt.Sprintf("%+v", one), fmt.Sprintf("%+v", other); want != got {
		p.t.Errorf("%v: Allow(%q, %d):\nin memory %s\non Redis  %s", time.Now(), key, n, want, got)
	}
}

// pause returns a time to the next call: nothing, a little, or such that something has
// just come back, or nearly.
func (p *pair) pause() time.Duration {
	switch p.random.IntN(9) {
	case 0, 1, 2:
		return 0
	case 3:
		return p.grain * time.Duration(1+p.random.IntN(5))
	case 4:
		return p.last.RetryAfter - p.grain*time.Duration(p.random.IntN(2))
	case 5:
		return p.last.ResetAfter - p.grain*time.Duration(p.random.IntN(2))
	case 6:
		return p.interval / time.Duration(p.rate)
	case 7:
		return time.Duration(p.random.Int64N(int64(p.interval)))
	default:
		return time.Duration(p.random.Int64N(int64(3 * p.interval)))
	}
}

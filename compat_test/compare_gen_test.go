package compat_test

import (
	"math/rand/v2"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// length is the steps of a sequence.
const length = 20

// A generator makes sequences of steps. What it makes depends on its seed alone.
type generator struct {
	*rand.Rand
	rate  rratelimiter.Config // set last
	mixed bool                // both play on one name; nothing gets lost then, as Java makes more than the limit of that (B2, B19)
}

// sequence makes the one with this seed.
func sequence(seed uint64, mixed bool) []step {
	g := generator{Rand: rand.New(rand.NewPCG(seed, length)), mixed: mixed}
	steps := []step{{op: trySetRate, limit: g.config()}}
	for len(steps) < length {
		steps = append(steps, g.step())
	}
	for i := range steps {
		steps[i].java = mixed && g.IntN(2) == 0
		if g.IntN(2) == 0 {
			steps[i].patience = g.IntN(5)
		}
		if g.IntN(3) == 0 {
			steps[i].pause = time.Duration(g.IntN(81)) * time.Millisecond
		}
	}
	return steps
}

// weights says how often each operation comes, in a hundred or so.
var weights = []struct {
	op     operation
	weight int
}{
	{tryAcquire, 44}, {availablePermits, 10}, {release, 8}, {setRate, 8}, {updateRate, 8}, {trySetRate, 4}, {getConfig, 4},
	{isExists, 2}, {deletes, 2}, {expire, 3}, {clearExpire, 3}, {remainTimeToLive, 3}, {lose, 3},
}

func (g *generator) operation() operation {
	all := 0
	for _, w := range weights {
		all += w.weight
	}
	n := g.IntN(all)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.op
		}
	}
	panic("not reached")
}

func (g *generator) step() step {
	s := step{op: g.operation()}
	switch s.op {
	case trySetRate, setRate, updateRate:
		s.limit, s.keepState = g.config(), s.op != trySetRate && g.IntN(2) == 0
	case tryAcquire:
		s.permits = g.permits()
	case release:
		s.permits = int64(g.IntN(8) - 1)
		if g.IntN(10) == 0 {
			s.permits = g.permits()%(1<<40) + 1
		}
	case expire:
		s.ttl = time.Duration(2+g.IntN(2)) * time.Hour
	case lose:
		s.part = []string{"hash", "value", "value", "permits", "permits", "interval", "keepAliveTime"}[g.IntN(7)]
		if g.mixed {
			s.op = availablePermits
		}
	}
	return s
}

// config is a rate: mostly a small one that comes back while the sequence
// runs, sometimes one that does not, is too large to count, or is none.
func (g *generator) config() rratelimiter.Config {
	c := config(overall, int64(1+g.IntN(20)), time.Duration(30+g.IntN(50))*time.Millisecond)
	if g.rate.Rate > 0 && g.IntN(3) > 0 { // change a part of what is set
		c.Type, c.Interval = g.rate.Type, g.rate.Interval
	} else if g.IntN(5) < 2 {
		c.Type = perClient
	}
	switch g.IntN(60) {
	case 0:
		c.Rate = []int64{0, -1, 1<<53 + 1, 1e17}[g.IntN(4)]
	case 1:
		c.Interval = time.Duration(g.IntN(2)-1) * time.Millisecond
	case 2, 3, 4:
		c.Rate = []int64{1<<32 + 10, 1 << 41, 1 << 53}[g.IntN(3)]
	case 5, 6, 7, 8, 9, 10, 11, 12, 13, 14:
		c.Interval = 5 * time.Minute
	}
	switch g.IntN(30) {
	case 0:
		c.KeepAlive = c.Interval - time.Millisecond
	case 1, 2, 3, 4:
		c.KeepAlive = time.Duration(1+g.IntN(2)) * 20 * time.Minute
	}
	if c.Rate > 0 && c.Interval > 0 {
		g.rate = c
	}
	return c
}

// permits is a request: mostly one that can be granted.
func (g *generator) permits() int64 {
	rate := max(1, g.rate.Rate)
	switch g.IntN(20) {
	case 0:
		return rate + int64(1+g.IntN(3))
	case 1:
		return int64(g.IntN(3)) - 2
	case 2:
		return []int64{1<<32 - 1, 1 << 32, 1<<32 + 5, 1 << 40, 1<<40 + 1}[g.IntN(5)]
	case 3, 4, 5, 6:
		return 1 + g.Int64N(rate)
	case 7, 8:
		return rate
	}
	return 1 + g.Int64N(max(1, min(rate, 40)/3))
}

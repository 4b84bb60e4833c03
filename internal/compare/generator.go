package compare

import (
	"math/rand/v2"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// stepsPerSequence is enough for a rate to be set, used up and changed a few
// times, and few enough for a sequence to take less than a second.
const stepsPerSequence = 20

// A generator makes sequences of steps. They depend on its seed alone.
type generator struct {
	*rand.Rand
	last rratelimiter.Config // the rate that was set last
}

func sequence(seed uint64) []Step {
	g := generator{Rand: rand.New(rand.NewPCG(seed, stepsPerSequence))}
	steps := []Step{{Op: TrySetRate, Limit: g.limit()}}
	for len(steps) < stepsPerSequence {
		steps = append(steps, g.step())
	}
	for i := range steps {
		steps[i].Java = g.IntN(2) == 0
		if g.IntN(3) == 0 {
			steps[i].Pause = time.Duration(g.IntN(81)) * time.Millisecond
		}
	}
	return steps
}

// weights says how often each operation comes, in about a hundred. Without many
// acquires the other operations would show little.
var weights = []struct {
	op     Operation
	weight int
}{
	{TryAcquire, 44}, {AvailablePermits, 10}, {Release, 8}, {SetRate, 8}, {UpdateRate, 8}, {TrySetRate, 4},
	{Delete, 2}, {Expire, 3}, {ClearExpire, 3},
}

func (g *generator) operation() Operation {
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

func (g *generator) step() Step {
	s := Step{Op: g.operation()}
	switch s.Op {
	case TrySetRate, SetRate, UpdateRate:
		s.Limit, s.KeepState = g.limit(), s.Op != TrySetRate && g.IntN(2) == 0
	case TryAcquire:
		s.Permits = g.permits()
	case Release:
		s.Permits = int64(g.IntN(8) - 1)
		if g.IntN(10) == 0 {
			s.Permits = g.permits()%mostPermits + 1
		}
	case Expire:
		s.TTL = time.Duration(2+g.IntN(2)) * time.Hour // further apart than near
	}
	return s
}

// limit returns a rate: mostly a small one whose permits come back while the sequence
// runs. Some do not come back, some are too large to count, and some are refused.
func (g *generator) limit() rratelimiter.Config {
	c := rratelimiter.Config{Rate: int64(1 + g.IntN(20))}
	c.Interval = time.Duration(30+g.IntN(50)) * time.Millisecond
	if g.last.Rate > 0 && g.IntN(3) > 0 { // change a part of the last one
		c.Type, c.Interval = g.last.Type, g.last.Interval
	} else if g.IntN(5) < 2 {
		c.Type = rratelimiter.PerClient
	}
	switch n := g.IntN(60); {
	case n == 0:
		c.Rate = []int64{0, -1, mostRate + 1, 1e17}[g.IntN(4)]
	case n == 1:
		c.Interval = time.Duration(g.IntN(2)-1) * time.Millisecond
	case n <= 4:
		c.Rate = []int64{1<<32 + 10, 1 << 41, mostRate}[g.IntN(3)]
	case n <= 14:
		c.Interval = 5 * time.Minute
	}
	switch n := g.IntN(30); {
	case n == 0:
		c.KeepAlive = c.Interval - time.Millisecond
	case n <= 4:
		c.KeepAlive = time.Duration(1+g.IntN(2)) * 20 * time.Minute
	}
	if c.Rate > 0 && c.Interval > 0 {
		g.last = c
	}
	return c
}

// permits returns a number of permits: mostly one that can be granted.
func (g *generator) permits() int64 {
	rate := max(1, g.last.Rate)
	switch n := g.IntN(20); {
	case n == 0:
		return rate + int64(1+g.IntN(3))
	case n == 1:
		return int64(g.IntN(3)) - 2
	case n == 2:
		return []int64{mostPerRecord, 1 << 32, 1<<32 + 5, mostPermits, mostPermits + 1}[g.IntN(5)]
	case n <= 6:
		return 1 + g.Int64N(rate)
	case n <= 8:
		return rate
	}
	return 1 + g.Int64N(max(1, min(rate, 40)/3))
}

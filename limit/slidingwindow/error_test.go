package slidingwindow_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/slidingwindow"
)

// A request of a simulation. 0 permits are all that are there.
type request struct {
	at time.Duration
	n  int64
}

// simulated is the rate, in a second. Each simulation lasts for some intervals.
const (
	simulated = 1000
	lasts     = 20 * time.Second
)

// traffic is of some kinds. But for the greedy kind it has half more requests than the
// rate.
var traffic = []struct {
	name     string
	seeds    uint64 // one where nothing is random
	requests func(random *rand.Rand) []request
}{
	{"steady", 1, func(*rand.Rand) (all []request) {
		for at := time.Duration(0); at < lasts; at += time.Second * 2 / (3 * simulated) {
			all = append(all, request{at, 1})
		}
		return all
	}},
	{"random", 6, func(random *rand.Rand) (all []request) {
		for at := 0.0; at < lasts.Seconds(); at += random.ExpFloat64() * 2 / (3 * simulated) {
			all = append(all, request{time.Duration(at * 1e9), 1})
		}
		return all
	}},
	{"bursty", 6, func(random *rand.Rand) (all []request) { // of up to the rate
		for at := 0.0; at < lasts.Seconds(); at += random.ExpFloat64() / 3 {
			for range 1 + random.IntN(simulated) {
				all = append(all, request{time.Duration(at * 1e9), 1})
			}
		}
		return all
	}},
	// The rate at the end of a part, and then at once whatever comes back.
	{"greedy", 1, func(*rand.Rand) (all []request) {
		for at := time.Second - time.Microsecond; at < lasts; at += 100 * time.Microsecond {
			all = append(all, request{at, 0})
		}
		return all
	}},
}

// simulate returns what was granted.
func simulate(t *testing.T, a formtest.Algorithm, all []request) (granted []request) {
	t.Helper()
	var now time.Duration
	l := redistest.Must(
		a.InMemory(limit.WithClock(func() time.Time { return time.Unix(2e9, 0).Add(now) })))(t)
	ask := func(n int64) limit.Result {
		r := redistest.Must(l.Allow(t.Context(), n))(t)
		if r.Allowed {
			granted = append(granted, request{now, n})
		}
		return r
	}
	for _, r := range all {
		now = r.at.Truncate(time.Microsecond)
		if r.n > 0 {
			ask(r.n)
		} else if left := ask(1).Remaining; left > 0 {
			ask(left)
		}
	}
	return granted
}

// sum returns the permits of all requests.
func sum(all []request) (permits int64) {
	for _, r := range all {
		permits += r.n
	}
	return permits
}

// most returns the permits of the worst interval.
func most(granted []request, interval time.Duration) (worst int64) {
	sum, first := int64(0), 0
	for _, r := range granted {
		sum += r.n
		for ; granted[first].at <= r.at-interval; first++ {
			sum -= granted[first].n
		}
		worst = max(worst, sum)
	}
	return worst
}

// The documentation of Counter says by how much it is wrong: what is granted in the worst
// interval above the rate, and in all above what a Log grants, both in percent.
func TestErrorsAreAsDocumented(t *testing.T) {
	source := redistest.Must(os.ReadFile("counter.go"))(t)
	for _, kind := range traffic {
		var exact int64
		var top, granted [3]int64
		for seed := range kind.seeds {
			all := kind.requests(rand.New(rand.NewPCG(seed, 9)))
			log := simulate(t, formtest.Of(slidingwindow.Log{Rate: simulated, Interval: time.Second}), all)
			if n := most(log, time.Second); n > simulated {
				t.Errorf("%s: a Log grants %d in an interval", kind.name, n)
			}
			exact += sum(log)
			for i, parts := range []int{1, 10, 100} {
				c := slidingwindow.Counter{Rate: simulated, Interval: time.Second, Parts: parts}
				got := simulate(t, formtest.Of(c), all)
				top[i], granted[i] = max(top[i], most(got, time.Second)), granted[i]+sum(got)
			}
		}
		var worst, more strings.Builder
		for i := range top {
			fmt.Fprintf(&worst, "%7.1f", 100*float64(top[i]-simulated)/simulated)
			fmt.Fprintf(&more, "%7.1f", 100*float64(granted[i]-exact)/float64(exact))
		}
		line := fmt.Sprintf("//\t%s  %s   %s\n", kind.name, &worst, &more)
		if !strings.Contains(string(source), line) {
			t.Errorf("the documentation of Counter lacks the line\n%s", line)
		}
	}
}

// The bound of a Counter, for those who do their worst: they take what is there around the
// ends of parts, and what comes back. No interval has twice the rate, and one that is
// a part shorter has no more than the rate.
func TestTheWorstOfACounter(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		c := slidingwindow.Counter{
			Rate:     []int64{1, 2, 10, 1000, 1 << 40}[random.IntN(5)],
			Interval: []time.Duration{time.Millisecond, time.Second, 24 * time.Hour}[random.IntN(3)],
			Parts:    []int{1, 2, 3, 10, 100}[random.IntN(5)],
		}
		granted := simulate(t, formtest.Of(c), aroundParts(random, c))
		if n := most(granted, c.Interval); n >= 2*c.Rate {
			t.Errorf("seed %d, %+v: %d in an interval", seed, c, n)
		}
		if shorter := c.Interval - c.Interval/time.Duration(c.Parts); shorter > 0 {
			if n := most(granted, shorter); n > c.Rate {
				t.Errorf("seed %d, %+v: %d in an interval less a part", seed, c, n)
			}
		}
	}
}

// aroundParts returns requests for all that is there, or for less, mostly when a part ends.
func aroundParts(random *rand.Rand, c slidingwindow.Counter) (all []request) {
	width := (c.Interval.Microseconds() + int64(c.Parts) - 1) / int64(c.Parts)
	const began = 2e15 // of the simulation, in µs
	for at := int64(0); at < 5*c.Interval.Microseconds(); {
		n := int64(random.IntN(2)) * (1 + random.Int64N(c.Rate))
		all = append(all, request{time.Duration(at) * time.Microsecond, n})
		switch random.IntN(4) {
		case 0:
			at += random.Int64N(3)
		case 1:
			at += width - (began+at)%width - random.Int64N(2)
		case 2:
			at += random.Int64N(width/10 + 2)
		default:
			at += random.Int64N(int64(1+random.IntN(2)) * c.Interval.Microseconds())
		}
	}
	return all
}

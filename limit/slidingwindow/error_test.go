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

// traffic is of some kinds. But for the greedy kind it has half more requests than the rate.
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
// interval above the rate, and in all above what a Log grants, both in percent. No interval has twice the
// rate, and one that is a part shorter has no more than the rate.
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
				shorter := time.Second - time.Second/time.Duration(parts)
				top[i], granted[i] = max(top[i], most(got, time.Second)), granted[i]+sum(got)
				if n := most(got, max(1, shorter)); top[i] >= 2*simulated || n > simulated {
					t.Errorf("%s, %d parts: %d in %v, at most %d", kind.name, parts, n, shorter, top[i])
				}
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

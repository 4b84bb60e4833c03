package traffic

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Traffic is requests for a permit each, in the order of their times.
type Traffic struct {
	Name     string
	Requests []time.Duration // since the start; whole ms, as Redisson has no finer time
	Length   time.Duration   // of a picture; a queue may need longer
}

// MostRequests bounds a Traffic. Each request to RRateLimiter is a script on a Redis in Go, so that more
// requests would take too long.
const MostRequests = 4_000

// kinds makes each kind of traffic.
var kinds = map[string]func(rate int64, per time.Duration) Traffic{
	"burst": burst, "steady": steady, "edge": edge, "random": poisson,
}

// Kinds returns the kinds of Make.
func Kinds() []string { return []string{"burst", "steady", "edge", "random"} }

// Make returns the traffic of a kind, one of Kinds, for a limit of rate permits in each interval per:
//
//   - burst: nothing, then twice the rate within a fifth of the interval, three times
//   - steady: 150 % of the rate, evenly
//   - edge: a request, which begins a window; the rest of the rate at the end of that window; the rate at the
//     beginning of the next window; all of it twice
//   - random: the rate on average, by chance, but the same each time
func Make(kind string, rate int64, per time.Duration) (Traffic, error) {
	t := kinds[kind](rate, per)
	if n := len(t.Requests); n > MostRequests {
		return t, fmt.Errorf("the traffic has %d requests, must have at most %d: take a smaller rate",
			n, MostRequests)
	}
	t.Name = kind
	return t, nil
}

// even adds n requests, evenly from one time to another.
func (t *Traffic) even(n int64, from, to time.Duration) {
	for i := range n {
		at := from + (to-from)*time.Duration(i)/time.Duration(n)
		t.Requests = append(t.Requests, at.Truncate(time.Millisecond))
	}
}

func burst(rate int64, per time.Duration) Traffic {
	t := Traffic{Length: 6 * per}
	for at := per / 2; at < t.Length; at += 2 * per {
		t.even(2*rate, at, at+per/5)
	}
	return t
}

func steady(rate int64, per time.Duration) Traffic {
	t := Traffic{Length: 6 * per}
	t.even(9*rate, 0, t.Length)
	return t
}

func edge(rate int64, per time.Duration) Traffic {
	t := Traffic{Length: 6 * per}
	for start := time.Duration(0); start < t.Length; start += 3 * per {
		t.even(1, start, start)
		t.even(rate-1, start+per-per/5, start+per)
		t.even(rate, start+per, start+per+per/5)
	}
	return t
}

func poisson(rate int64, per time.Duration) Traffic {
	t, random := Traffic{Length: 6 * per}, rand.New(rand.NewPCG(1, 0))
	gap := float64(per) / float64(rate)
	for at := random.ExpFloat64() * gap; at < float64(t.Length); at += random.ExpFloat64() * gap {
		t.Requests = append(t.Requests, time.Duration(at).Truncate(time.Millisecond))
	}
	return t
}

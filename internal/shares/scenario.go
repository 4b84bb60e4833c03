// Package shares measures how callers of Go and Java divide a limit that is too small for all of
// them, interval by interval, and judges that by the bounds of docs/waiting.md.
package shares

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// Forever is the timeout of callers that wait until they have their permits.
const Forever = 10 * time.Minute

// A Limit is the limit that the callers share.
type Limit struct {
	Rate     int64
	Interval time.Duration
}

// A Side is the callers of one language. Each acquires permits again and again.
type Side struct {
	Clients    int           // Clients of this library, or Redisson instances; 0 leaves the side out
	Callers    int           // of each client
	Permits    int64         // of each call; 0 is 1
	Timeout    time.Duration // of each call; 0 is Forever, below 0 none: tryAcquire(permits)
	Every      time.Duration // the time from one call of a caller to the next; 0: none
	From, Till int           // the intervals in which the callers come and leave; Till 0: at the end
}

func (s Side) permits() int64 { return cmp.Or(s.Permits, 1) }
func (s Side) wants() int64   { return int64(s.Clients*s.Callers) * s.permits() }

// Patience returns the timeout of a call: 0 for a call without one.
func (s Side) Patience() time.Duration { return max(0, cmp.Or(s.Timeout, Forever)) }

// A Scenario is a limit, the callers that share it, and the bounds of what they get. The bounds
// hold from the third interval on in which both sides have callers, or Java has left; the median of
// several runs is judged.
type Scenario struct {
	Name string
	Limit
	Go, Java Side
	Options  []rratelimiter.Option // of the Clients of Go
	Holds    time.Duration         // how long callers of Go hold their permits; 0: they keep them

	Least, Most float64 // bounds of the part of the permits that Go gets
	Used        float64 // the least part of the limit that is used
	Index       float64 // the least of Jain's index of processes, Java as one of them, in two intervals
	Served      float64 // the least part of the calls of Java that are granted; 0 is not judged
	Uneven      bool    // a side may get nothing, and a caller wait, for longer than an interval and 200 ms
	After       int     // further intervals until the bounds hold
}

// Intervals returns how long a run is: after the bounds hold, 16 s, but 4 intervals at least and 40 at most.
func (sc Scenario) Intervals() int {
	return sc.judgedFrom() + max(4, min(40, int(16*time.Second/sc.Interval)))
}

// judgedFrom returns the interval from which the bounds hold.
func (sc Scenario) judgedFrom() int {
	return max(sc.Go.From, sc.Java.From, sc.Java.Till) + 2 + sc.After
}

// longest returns the longest wait of a caller of Go, and 200 ms: 1.3 turns, each of which is a permit for
// every caller; or an interval, because permits that were taken at one moment come back at one moment.
// Among many processes one may miss a round.
func (sc Scenario) longest() time.Duration {
	wanted := sc.Go.wants() + sc.Java.wants()
	turn := time.Duration(wanted) * sc.Interval / time.Duration(sc.Rate)
	rounds := time.Duration(1)
	if sc.Go.Clients > 2 {
		rounds = 2
	}
	return max(rounds*sc.Interval, turn*13/10) + 200*time.Millisecond
}

// Loosely returns sc with bounds that a single run keeps on a machine with other work.
func (sc Scenario) Loosely() Scenario {
	sc.Least, sc.Most, sc.Used = sc.Least-0.15, sc.Most+0.15, sc.Used-0.05
	sc.Index, sc.Served, sc.Uneven = sc.Index-0.15, sc.Served-0.2, true
	return sc
}

func (sc Scenario) String() string {
	return fmt.Sprintf("%s, %d per %v", sc.Name, sc.Rate, sc.Interval)
}

// one returns a Side of callers in one process.
func one(callers int) Side { return Side{Clients: 1, Callers: callers} }

// equal returns a scenario with the same number of callers on each side.
func equal(limit Limit, callers int) Scenario {
	return Scenario{
		Name: fmt.Sprintf("%d and %d callers", callers, callers), Limit: limit,
		Go: one(callers), Java: one(callers), Least: 0.45, Most: 0.55, Used: 0.95,
	}
}

// Scenarios returns what docs/waiting.md promises.
func Scenarios() (all []Scenario) {
	const most = 0.95
	second, scarce, usual := Limit{50, time.Second}, Limit{20, time.Second}, Limit{50, 400 * time.Millisecond}
	for _, limit := range []Limit{scarce, {100, time.Second}, usual, {20, late}, {40, 10 * time.Second}} {
		sc := equal(limit, 4)
		if limit.Interval <= late { // Java sleeps for longer
			sc.Least, sc.Most, sc.Used, sc.Uneven, sc.After = 0.4, 0.7, 0.8, true, 20
		}
		goFirst, javaFirst := sc, sc
		goFirst.Name, goFirst.Java.From = sc.Name+", Go comes first", 3
		javaFirst.Name, javaFirst.Go.From = sc.Name+", Java comes first", 3
		all = append(all, sc, goFirst, javaFirst)
	}
	for rate := range int64(5) {
		sc := equal(Limit{rate + 1, time.Second}, 4)
		sc.Least, sc.Most, sc.Used, sc.Uneven, sc.After = 0.3, 0.7, 0.9, true, 12
		all = append(all, sc)
	}
	processes := func(n, callers int, limit Limit) Scenario {
		return Scenario{
			Name: fmt.Sprintf("%d processes of %d callers and Java", n, callers), Limit: limit,
			Go: Side{Clients: n, Callers: callers}, Java: one(4), Most: 1, Used: most, Index: most,
		}
	}
	crowds := processes(3, 20, second)
	crowds.Name, crowds.Java, crowds.Index, crowds.Uneven = "3 processes of 20 callers", Side{}, 0.98, true
	seldom := Side{Clients: 1, Callers: 1, Timeout: 400 * time.Millisecond, Every: 500 * time.Millisecond}
	tens := Side{Clients: 1, Callers: 4, Permits: 10}
	leases := []rratelimiter.Option{rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second})}
	return append(all,
		equal(second, 16),
		Scenario{Name: "16 and 4 callers", Limit: second, Go: one(16), Java: one(4),
			Least: 0.4, Most: 0.8, Used: most},
		Scenario{Name: "4 and 16 callers", Limit: second, Go: one(4), Java: one(16),
			Least: 0.2, Most: 0.6, Used: most},
		processes(2, 4, second), processes(8, 4, Limit{100, time.Second}), crowds,
		Scenario{Name: "Java asks seldom", Limit: scarce, Go: one(8), Java: seldom,
			Most: 1, Used: most, Served: 0.8},
		Scenario{Name: "Java asks seldom", Limit: usual, Go: one(8), Java: seldom,
			Most: 1, Used: most, Served: 0.8, Uneven: true},
		Scenario{Name: "Java falls silent", Limit: scarce, Go: one(4),
			Java: Side{Clients: 1, Callers: 4, Till: 4}, Most: 1, Used: 0.985},
		Scenario{Name: "no Java", Limit: scarce, Go: one(4), Most: 1, Used: 0.98},
		Scenario{Name: "no Java", Limit: usual, Go: one(4), Most: 1, Used: 0.98},
		Scenario{Name: "no Java, and no caller waits for long", Limit: usual, Most: 1, Used: 0.98,
			Go: Side{Clients: 1, Callers: 4, Timeout: late / 2}},
		Scenario{Name: "Java tries without waiting", Limit: scarce, Go: one(4), Least: 0.2, Most: 0.6,
			Used: most, Java: Side{Clients: 1, Callers: 4, Timeout: -1}, Uneven: true},
		Scenario{Name: "calls of 10 permits and of 1", Limit: usual, Go: tens, Java: one(4),
			Least: 0.25, Most: 0.6, Used: most, Uneven: true},
		Scenario{Name: "calls for the whole rate and of 1", Limit: Limit{10, time.Second}, Java: one(1),
			Go: Side{Clients: 1, Callers: 2, Permits: 10}, Least: 0.35, Most: 0.65, Used: 0.9, Uneven: true},
		Scenario{Name: "calls of 1 permit and of 10", Limit: usual, Go: one(4), Java: tens,
			Least: 0.4, Most: 0.75, Used: 0.9, Uneven: true},
		Scenario{Name: "Go waits for less than a turn", Limit: scarce, Java: one(4), Least: 0.55, Most: 0.78,
			Used: most, Go: Side{Clients: 2, Callers: 16, Timeout: 500 * time.Millisecond}},
		Scenario{Name: "Go gives back", Limit: scarce, Go: one(8), Java: one(4), Holds: late / 5,
			Least: 0.75, Most: 0.98, Used: 2},
		Scenario{Name: "Go takes leases", Limit: Limit{400, 400 * time.Millisecond}, Go: one(4), Java: one(4),
			Options: leases, Least: 0.2, Most: 0.8, Used: most, Uneven: true},
	)
}

// late is how late a waiter of Redisson may wake up: one tick of its timer (3.25.1 and later).
const late = 100 * time.Millisecond

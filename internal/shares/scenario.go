package shares

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// The bounds that every scenario must reach, also without Java. A fair library gets
// well above them, an unfair one far below.
const (
	LeastRatio = 0.35 // of each side: received / due
	LeastUsed  = 0.95 // of the limit
	LeastIndex = 0.98 // Jain's fairness index
)

// Timeout is the timeout of a call, unless its side has another one. It is some
// intervals long, so most calls end with a grant.
const Timeout = 2 * time.Second

// A Limit is the limit that the callers share.
type Limit struct {
	Rate     int64
	Interval time.Duration
}

func (l Limit) String() string { return fmt.Sprintf("%d per %v", l.Rate, l.Interval) }

// possible returns the permits that the limit allows in a span.
func (l Limit) possible(span time.Duration) float64 {
	return float64(l.Rate) * float64(span) / float64(l.Interval)
}

// A Side describes the callers of one language.
type Side struct {
	Clients int           // Clients of this library, or Redisson instances
	Callers int           // goroutines or threads of each; 0 leaves the side out
	Permits int64         // of each call
	Timeout time.Duration // of each call; 0 for the usual one
}

func (s Side) timeout() time.Duration { return cmp.Or(s.Timeout, Timeout) }

// weight is the permits that all callers of the side ask for at once.
func (s Side) weight() float64 { return float64(s.Clients) * float64(s.Callers) * float64(s.Permits) }

func (s Side) describe(language string) string {
	text := fmt.Sprintf("%d %s", s.Clients*s.Callers, language)
	if s.Clients > 1 {
		text += fmt.Sprintf(" in %d clients", s.Clients)
	}
	if s.Permits > 1 {
		text += fmt.Sprintf(" for %d each", s.Permits)
	}
	if s.Timeout > 0 {
		text += fmt.Sprintf(" within %v", s.Timeout)
	}
	return text
}

// A Scenario is a limit and the callers that share it.
type Scenario struct {
	Limit
	Go, Java Side
	Options  []rratelimiter.Option // of the Clients of Go
}

// String names the scenario: 50 per 400ms, 4 Go, 4 Java for 10 each.
func (sc Scenario) String() string {
	text := sc.Limit.String()
	for _, side := range []string{sc.Go.describe("Go"), sc.Java.describe("Java")} {
		if side[0] != '0' {
			text += ", " + side
		}
	}
	return text
}

var (
	usual = Limit{50, 400 * time.Millisecond}
	four  = Side{Clients: 1, Callers: 4, Permits: 1}
	many  = Side{Clients: 1, Callers: 16, Permits: 1}
	tens  = Side{Clients: 1, Callers: 4, Permits: 10}
	brief = Side{Clients: 1, Callers: 4, Permits: 1, Timeout: 500 * time.Millisecond}
)

// Scenarios are the scenarios of Go beside Java. The tests run the first three of them,
// unless SHARES=long. The callers of a Client wait in one line; those of four
// Clients wait in four lines, as in four processes.
var Scenarios = []Scenario{
	{Limit: usual, Go: four, Java: four},
	{Limit: usual, Go: many, Java: four},
	// Every other timeout passes just when permits are due.
	{Limit: Limit{20, time.Second}, Go: brief, Java: brief},
	{Limit: usual, Go: four, Java: tens},
	{Limit: usual, Go: four, Java: many},
	{Limit: Limit{4, 400 * time.Millisecond}, Go: four, Java: four},
	{Limit: Limit{200, 500 * time.Millisecond}, Go: four, Java: four},
	{Limit: usual, Go: Side{Clients: 4, Callers: 1, Permits: 1}, Java: four},
	{Limit: usual, Go: Side{Clients: 4, Callers: 4, Permits: 1}, Java: four},
}

// Leases are the options of Clients that take leases.
var Leases = []rratelimiter.Option{rratelimiter.WithLease(rratelimiter.LeaseOptions{Max: time.Second})}

// Leased is Go with leases beside Java.
var Leased = Scenario{Limit: Limit{400, 400 * time.Millisecond}, Go: four, Java: four, Options: Leases}

// Alone are scenarios without Java: they show what Go loses if it waits as it
// does beside Java.
var Alone = []Scenario{
	{Limit: usual, Go: four},
	{Limit: Limit{1, 10 * time.Millisecond}, Go: four},
}

// Among is what processes of Go share.
var Among = usual

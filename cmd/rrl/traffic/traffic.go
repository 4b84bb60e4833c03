package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// A Request asks for permits at a time since the start.
type Request struct {
	At      time.Duration // a whole number of ms, as Redisson has no finer time
	Permits int64
}

// A Traffic is requests in the order of their times.
type Traffic struct {
	Name     string
	Requests []Request
	Length   time.Duration // of a picture; a queue may need longer
}

// The bounds of a Traffic. Each request to RRateLimiter is a script on a Redis in Go, so that more requests
// would take too long.
const (
	MostRequests = 4_000
	mostPermits  = 1_000_000
	mostLength   = 24 * time.Hour
)

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
		t.Requests = append(t.Requests, Request{at.Truncate(time.Millisecond), 1})
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
		t.Requests = append(t.Requests, Request{time.Duration(at).Truncate(time.Millisecond), 1})
	}
	return t
}

// Parse reads a line for each request: its time since the start, and its permits, which default to 1. A time
// is in seconds, as 1.25, or has a unit, as 1250ms; fractions of a millisecond are dropped. Lines may be in
// any order. Empty lines and lines that begin with # are skipped. An error names the line.
func Parse(name string, r io.Reader, per time.Duration) (Traffic, error) {
	t := Traffic{Name: name}
	name = words.Name(name)
	lines := bufio.NewScanner(r)
	number := 1
	for ; lines.Scan(); number++ {
		text := lines.Text()
		if number == 1 {
			text = strings.TrimPrefix(text, byteOrderMark)
		}
		line := strings.TrimSpace(text)
		if line == "" || line[0] == '#' {
			continue
		}
		request, err := parseLine(line)
		if err != nil {
			return Traffic{}, fmt.Errorf("%s, line %d: %w", name, number, err)
		}
		if t.Requests = append(t.Requests, request); len(t.Requests) > MostRequests {
			return Traffic{}, fmt.Errorf("%s, line %d: more than %d requests", name, number, MostRequests)
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return Traffic{}, fmt.Errorf("%s, line %d: too long", name, number)
		}
		return Traffic{}, err
	}
	if len(t.Requests) == 0 {
		return Traffic{}, fmt.Errorf("%s has no requests", name)
	}
	slices.SortStableFunc(t.Requests, func(a, b Request) int { return int(a.At - b.At) })
	t.Length = (t.Requests[len(t.Requests)-1].At/per + 1) * per
	return t, nil
}

// byteOrderMark is the first character of a file from some editors.
const byteOrderMark = "\ufeff"

func parseLine(line string) (Request, error) {
	fields := strings.Fields(line)
	if len(fields) > 2 {
		return Request{}, fmt.Errorf("it has %d words, must have a time and the permits", len(fields))
	}
	at, err := parseTime(fields[0])
	if err != nil {
		return Request{}, err
	}
	r := Request{at.Truncate(time.Millisecond), 1}
	if len(fields) == 2 {
		r.Permits, err = strconv.ParseInt(fields[1], 10, 64)
		if err != nil || r.Permits < 1 || r.Permits > mostPermits {
			return Request{}, fmt.Errorf("the permits are %q, must be 1 to %d", fields[1], mostPermits)
		}
	}
	return r, nil
}

func parseTime(text string) (time.Duration, error) {
	at, err := time.ParseDuration(text)
	if err != nil {
		at, err = time.ParseDuration(text + "s")
	}
	if err != nil || at < 0 || at > mostLength {
		return 0, fmt.Errorf("the time is %q, must be 0 to %v, as 1.25 (seconds) or 1250ms", text, mostLength)
	}
	return at, nil
}

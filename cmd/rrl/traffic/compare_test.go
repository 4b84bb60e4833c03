package traffic_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/golden"
	"github.com/redisson-go/rratelimiter/cmd/rrl/internal/picture"
	"github.com/redisson-go/rratelimiter/cmd/rrl/traffic"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

var twenty = traffic.Plan{Rate: 20, Per: time.Second}

// comparisons are made once, because each of them takes a while with the race detector.
var comparisons = func() map[string]func() (*traffic.Comparison, error) {
	made := map[string]func() (*traffic.Comparison, error){}
	for _, kind := range traffic.Kinds() {
		made[kind] = sync.OnceValues(func() (*traffic.Comparison, error) {
			requests, err := traffic.Make(kind, twenty.Rate, twenty.Per)
			if err != nil {
				return nil, err
			}
			return twenty.Run(context.Background(), requests)
		})
	}
	return made
}()

// compared returns the comparison of a kind of traffic, with 20 permits per second.
func compared(t *testing.T, kind string) *traffic.Comparison {
	t.Helper()
	return redistest.Must(comparisons[kind]())(t)
}

// Bars, table and picture are the same each time: those of testdata and of docs/choosing.md.
func TestGoldenPictures(t *testing.T) {
	for _, kind := range traffic.Kinds() {
		c := compared(t, kind)
		var text strings.Builder
		redistest.NoError(t, errors.Join(c.Lines(&text, 80, false), c.Table(&text)))
		golden.Check(t, "testdata/"+kind+".golden", text.String())
		if kind == "random" {
			continue
		}
		var screen strings.Builder
		fmt.Fprintf(&screen, "$ rrl compare --traffic %s\n", kind)
		redistest.NoError(t, errors.Join(c.Lines(&screen, 80, true), c.Table(&screen)))
		golden.Check(t, "../../../docs/choosing-"+kind+".svg", picture.SVG(screen.String(), 80,
			1+strings.Count(screen.String(), "\n"), "rrl compare on a terminal: the traffic "+kind))
	}
}

// No line is wider than the terminal, and there are no colours unless they are asked for.
func TestLines(t *testing.T) {
	c := compared(t, "edge")
	for _, width := range []int{40, 60, 77, 80, 200} {
		var text, colours strings.Builder
		redistest.NoError(t, errors.Join(c.Lines(&text, width, false), c.Lines(&colours, width, true)))
		for line := range strings.Lines(text.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if strings.Contains(text.String(), "\x1b") || !strings.Contains(colours.String(), "\x1b[31m") {
			t.Errorf("colours without being asked for, or no red:\n%q", colours.String())
		}
	}
}

func chance(random *rand.Rand) (traffic.Plan, traffic.Traffic) {
	p := traffic.Plan{
		Rate: 1 + random.Int64N(30), Per: time.Duration(10+random.IntN(2000)) * time.Millisecond,
	}
	made := traffic.Traffic{Name: "chance"}
	var at time.Duration
	for range 1 + random.IntN(150) {
		if random.IntN(3) == 0 {
			at += time.Duration(random.Int64N(int64(p.Per))).Truncate(time.Millisecond)
		}
		made.Requests = append(made.Requests, at)
	}
	made.Length = at + p.Per
	return p, made
}

// Every request is admitted or refused, grants are in order, the figures are those of the grants, and the
// remaining part is between 0 and 1.
func TestFigures(t *testing.T) {
	for seed := range uint64(12) {
		p, made := chance(rand.New(rand.NewPCG(seed, 7)))
		c := redistest.Must(p.Run(t.Context(), made))(t)
		for _, s := range c.Strips {
			t.Run(fmt.Sprint(seed, " ", s.Name), func(t *testing.T) { check(t, c, s) })
		}
	}
}

func check(t *testing.T, c *traffic.Comparison, s *traffic.Strip) {
	t.Helper()
	n := len(c.Traffic.Requests)
	if s.Admitted+s.Refused != n || s.Admitted != len(s.Grants) || s.Refused < 0 {
		t.Errorf("%d admitted, %d refused of %d", s.Admitted, s.Refused, n)
	}
	if !slices.IsSorted(s.Grants) {
		t.Error("grants are not in order")
	}
	worst, busiest := slowly(s.Grants, c.Plan.Per), slowly(s.Grants, c.Plan.Per/10)
	if s.Worst != worst || s.Busiest != busiest {
		t.Errorf("%d and %d permits, must be %d and %d", s.Worst, s.Busiest, worst, busiest)
	}
	for _, left := range s.Left {
		if left < 0 || left > 1 {
			t.Fatalf("%v of the limit is left", left)
		}
	}
}

// slowly returns the most permits in any time of a length, by a look at each grant.
func slowly(grants []time.Duration, length time.Duration) (most int64) {
	for _, first := range grants {
		var sum int64
		for _, g := range grants {
			if g >= first && g < first+length {
				sum++
			}
		}
		most = max(most, sum)
	}
	return most
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	made, _ := traffic.Make("edge", 20, time.Second)
	if c, err := twenty.Run(ctx, made); c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", c, err)
	}
}

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

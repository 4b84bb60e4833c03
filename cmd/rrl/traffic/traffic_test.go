package traffic_test

import (
	"encoding/xml"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redisson-go/rratelimiter/cmd/rrl/traffic"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Requests are in the order of their times, within the length, at whole ms.
func TestMake(t *testing.T) {
	for _, kind := range traffic.Kinds() {
		for _, rate := range []int64{1, 2, 7, 20, 400} {
			for _, per := range []time.Duration{10 * time.Millisecond, time.Second, 24 * time.Hour} {
				made, err := traffic.Make(kind, rate, per, 1)
				if err != nil || made.Name != kind || made.Length != 6*per {
					t.Fatalf("%s, %d in %v: %q of %v, %v", kind, rate, per, made.Name, made.Length, err)
				}
				last := time.Duration(0)
				for _, r := range made.Requests {
					if r.At < last || r.At >= made.Length || r.At%time.Millisecond != 0 || r.Permits != 1 {
						t.Fatalf("%s, %d in %v: %+v after %v", kind, rate, per, r, last)
					}
					last = r.At
				}
			}
		}
	}
}

// count returns the requests of a traffic from one time to before another.
func count(made traffic.Traffic, from, to time.Duration) (n int) {
	for _, r := range made.Requests {
		if r.At >= from && r.At < to {
			n++
		}
	}
	return n
}

func TestKinds(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		kind     string
		from, to time.Duration
		want     int
	}{
		{"burst", 0, 500 * ms, 0},
		{"burst", 500 * ms, 700 * ms, 40},
		{"burst", 700 * ms, 2500 * ms, 0},
		{"burst", 2500 * ms, 2700 * ms, 40},
		{"steady", 0, 1000 * ms, 30},
		{"steady", 5000 * ms, 6000 * ms, 30},
		{"edge", 0, ms, 1},
		{"edge", ms, 800 * ms, 0},
		{"edge", 800 * ms, 1000 * ms, 19},
		{"edge", 1000 * ms, 1200 * ms, 20},
		{"edge", 1200 * ms, 3000 * ms, 0},
		{"edge", 3000 * ms, 6000 * ms, 40},
	} {
		made, err := traffic.Make(c.kind, 20, time.Second, 0)
		if got := count(made, c.from, c.to); err != nil || got != c.want {
			t.Errorf("%s: %d requests from %v to %v, want %d; %v", c.kind, got, c.from, c.to, c.want, err)
		}
	}
}

// Random traffic depends on its seed only, and has as many requests as the rate on average.
func TestRandom(t *testing.T) {
	const rate, seeds = 50, 200
	total := 0
	var first []traffic.Request
	for seed := range uint64(seeds) {
		made, err := traffic.Make("random", rate, time.Second, seed)
		again, _ := traffic.Make("random", rate, time.Second, seed)
		if err != nil || !slices.Equal(made.Requests, again.Requests) {
			t.Fatalf("seed %d: other requests the second time; %v", seed, err)
		}
		if seed == 0 {
			first = made.Requests
		} else if slices.Equal(made.Requests, first) {
			t.Fatalf("seed %d makes what seed 0 makes", seed)
		}
		total += len(made.Requests)
	}
	// Of a Poisson distribution, the variance is the mean.
	mean := 6.0 * rate * seeds
	if d := math.Abs(float64(total) - mean); d > 5*math.Sqrt(mean) {
		t.Errorf("%d requests, want about %g", total, mean)
	}
}

func TestMakeErrors(t *testing.T) {
	for _, c := range []struct {
		kind string
		rate int64
		want string
	}{
		{"flood", 1, `there is no traffic "flood", only burst, steady, edge, random`},
		{"steady", 1112, "the traffic has 10008 requests, must have at most 4000: take a smaller rate"},
		{"random", 1 << 62, "must have at most 4000: take a smaller rate"},
	} {
		_, err := traffic.Make(c.kind, c.rate, time.Second, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d: %v, want %q", c.kind, c.rate, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	const text = `# time, permits
1.25
0 3

  2s	1
.5   2
1250.9ms 7
`
	got, err := traffic.Parse("a.txt", strings.NewReader(text), time.Second)
	const ms = time.Millisecond
	want := []traffic.Request{{At: 0, Permits: 3}, {At: 500 * ms, Permits: 2}, {At: 1250 * ms, Permits: 1},
		{At: 1250 * ms, Permits: 7}, {At: 2000 * ms, Permits: 1}}
	if err != nil || !slices.Equal(got.Requests, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Length != 3*time.Second || got.Name != "a.txt" {
		t.Errorf("%q of %v", got.Name, got.Length)
	}
}

func TestNamesOfFilesAreHarmless(t *testing.T) {
	const name = "a\x1b[31m\x01\xff<b>"
	made := redistest.Must(traffic.Parse(name, strings.NewReader("\ufeff0 1\n"), time.Second))(t)
	c := redistest.Must(traffic.Plan{Rate: 1, Per: time.Second}.Run(t.Context(), made))(t)
	var text strings.Builder
	if err := c.Lines(&text, 80, false); err != nil || strings.Contains(text.String(), "\x1b") {
		t.Errorf("%q, %v", text.String(), err)
	}
	if err := xml.Unmarshal([]byte(c.SVG()), new(struct{})); err != nil {
		t.Errorf("the picture is no XML: %v", err)
	}
	_, err := traffic.Parse(name, strings.NewReader("x"), time.Second)
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "a.txt has no requests",
		"# only this\n\n":  "a.txt has no requests",
		"1\nsoon\n":        `a.txt, line 2: the time is "soon", must be 0 to 24h0m0s, as 1.25 (seconds) or`,
		"-1":               `a.txt, line 1: the time is "-1"`,
		"24h1ms":           `the time is "24h1ms"`,
		"1e3":              `the time is "1e3"`,
		"NaN":              `the time is "NaN"`,
		"9999999999999999": `the time is "9999999999999999"`,
		"1 0":              `a.txt, line 1: the permits are "0", must be 1 to 1000000`,
		"1 1000001":        `the permits are "1000001"`,
		"1 x":              `the permits are "x"`,
		"1 2 3":            "a.txt, line 1: it has 3 words, must have a time and the permits",

		"1\n2" + strings.Repeat(" ", 100_000): "a.txt, line 2: too long",
		strings.Repeat("1\n", 4001):           "a.txt, line 4001: more than 4000 requests",
	} {
		_, err := traffic.Parse("a.txt", strings.NewReader(text), time.Second)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
	broken := errors.New("broken")
	if _, err := traffic.Parse("a.txt", iotest.ErrReader(broken), time.Second); !errors.Is(err, broken) {
		t.Error(err)
	}
}

package shares

import (
	"math"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	Main()
	redistest.VerifyNoLeaks(m)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// A limit that is always used up counts in full, wherever in its bursts the window
// begins. One that is used late counts for as much less.
func TestCount(t *testing.T) {
	const interval = 400 * time.Millisecond
	start := time.UnixMilli(1_000_000)
	bursts := func(every time.Duration) (grants []grant) {
		for at := time.Duration(0); at < 10*time.Second; at += every {
			grants = append(grants, grant{at: start.Add(at), permits: 50})
		}
		return grants
	}
	for from := time.Second; from < 2*time.Second; from += 70 * time.Millisecond {
		w := window{start.Add(from), start.Add(from + 3*time.Second)}
		near(t, "punctual, from "+from.String(), w.count(bursts(interval), interval), 375)
	}
	w := window{start.Add(time.Second), start.Add(6 * time.Second)}
	near(t, "100 ms late", w.count(bursts(500*time.Millisecond), interval), 500)
	near(t, "nothing", w.count(nil, interval), 0)
	apart := []grant{{at: start, permits: 1}, {at: start.Add(6 * time.Second), permits: 1}}
	near(t, "before and after", w.count(apart, interval), 0)
}

func TestResult(t *testing.T) {
	sc := Scenario{Limit: Limit{50, 400 * time.Millisecond}, Go: four, Java: tens}
	r := newResult(sc, 200, 50, sc.possible(2*time.Second))
	near(t, "due to Go", r.Go.Due, 4./44)
	near(t, "due to Java", r.Java.Due, 40./44)
	near(t, "got by Java", r.Java.Got, 0.2)
	near(t, "ratio of Java", r.Java.Ratio(), 0.22)
	near(t, "used", r.Used(), 1)
	if r := newResult(sc, 0, 0, 250); math.IsNaN(r.Java.Ratio()) || r.Used() > 0 {
		t.Errorf("of nothing: %+v", r)
	}
	several := Several{r, newResult(sc, 250, 0, 250), newResult(sc, 0, 240, 250)}
	spreads := map[string]Spread{"Go": several.Go(), "Java": several.Java(), "used": several.Used()}
	for what, got := range spreads {
		want := map[string]Spread{"Go": {8.8, 0}, "Java": {0.22, 0}, "used": {1, 0.96}}[what]
		near(t, what+", median", got.Median, want.Median)
		near(t, what+", worst", got.Worst, want.Worst)
	}
}

func TestIndex(t *testing.T) {
	near(t, "all the same", Index([]float64{3, 3, 3, 3}), 1)
	near(t, "one has all", Index([]float64{0, 5, 0, 0}), 0.25)
	near(t, "2 and 1", Index([]float64{2, 1}), 0.9)
	near(t, "none has any", Index([]float64{0, 0}), 0)
	f := Fairnesses{
		{Granted: []float64{4, 0}, Possible: 10}, {Granted: []float64{4, 4}, Possible: 10},
		{Granted: []float64{2, 1}, Possible: 10},
	}
	near(t, "median index", f.Index().Median, 0.9)
	near(t, "worst use", f.Used().Worst, 0.3)
}

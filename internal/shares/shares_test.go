package shares

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
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

func TestNames(t *testing.T) {
	var names []string
	for _, sc := range slices.Concat(Scenarios, Alone) {
		names = append(names, sc.String())
	}
	for _, want := range []string{
		"50 per 400ms, 4 Go, 4 Java",
		"50 per 400ms, 4 Go, 4 Java for 10 each",
		"50 per 400ms, 16 Go in 4 clients, 4 Java",
		"1 per 10ms, 4 Go",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not among %q", want, names)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(Scenarios)+len(Alone) {
		t.Errorf("two have the same name: %q", names)
	}
}

// Go alone needs no peer. How much is used depends on the machine, but something
// is, and no more than the limit.
func TestRun(t *testing.T) {
	redistest.Require(t, "redis-server")
	r := redistest.Must(Run(t.Context(), nil, Scenario{Limit: usual, Go: four}, time.Second))(t)
	near(t, "possible", r.Possible, 125)
	near(t, "share of Go", r.Go.Ratio(), 1)
	if used := r.Used(); used < 0.2 || used > 1.05 {
		t.Errorf("used: %g", used)
	}
}

func TestRunFails(t *testing.T) {
	redistest.Require(t, "redis-server")
	bad := Scenario{Limit: usual, Go: four, Options: []rratelimiter.Option{rratelimiter.WithID("{")}}
	if _, err := Repeat(t.Context(), nil, bad, time.Millisecond, 2); err == nil {
		t.Error("callers failed, and no error")
	}
	t.Setenv("REDIS_SERVER", "/nowhere")
	if _, err := Run(t.Context(), nil, Alone[0], time.Millisecond); err == nil {
		t.Error("no server, and no error")
	}
}

func TestProcesses(t *testing.T) {
	redistest.Require(t, "redis-server")
	f := redistest.Must(
		RepeatProcesses(t.Context(), Crowd{Limit: Among, Processes: 2, Callers: 2}, time.Second, 2))(t)
	if used := f.Used(); len(f) != 2 || len(f[0].Granted) != 2 || used.Worst < 0.2 || used.Median > 1.05 {
		t.Errorf("%+v, used: %v", f, used)
	}
}

func TestPerformFails(t *testing.T) {
	server := redistest.Start(t)
	ready := `{"Addr":"` + server.Addr + `","Name":"none","Callers":1,"Duration":1000000000}`
	for text, in := range map[string]string{
		"{":                      "",   // no work
		`{"Addr":"127.0.0.1:1"}`: "",   // no server
		ready:                    "",   // the parent has ended
		ready + " ":              "\n", // no limiter
	} {
		if err := perform(text, strings.NewReader(in), new(strings.Builder)); err == nil {
			t.Errorf("%s, then %q: no error", text, in)
		}
	}
}

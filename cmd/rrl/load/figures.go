package load

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// figures are the measurements of a run. Their memory does not grow with the time.
type figures struct {
	granted, refused latencies
	failed           int64
	kinds            map[string]int64 // errors
	window           *Window
}

func newFigures(start time.Time, interval time.Duration) figures {
	return figures{
		granted: newLatencies(), refused: newLatencies(), kinds: map[string]int64{},
		window: NewWindow(start, interval),
	}
}

// latencies are those of calls, in us, to three digits, up to twice the longest timeout.
type latencies struct{ *hdrhistogram.Histogram }

func newLatencies() latencies {
	const digits = 3
	return latencies{hdrhistogram.New(1, 2*Longest.Microseconds(), digits)}
}

func (l latencies) add(d time.Duration) {
	// There is no error within the bounds.
	_ = l.RecordValue(min(max(d.Microseconds(), 1), 2*Longest.Microseconds()))
}

func (l latencies) calls() int64 { return l.TotalCount() }

// fail counts an error.
func (f *figures) fail(err error) {
	const most = 20
	f.failed++
	kind := kindOf(err)
	if _, counted := f.kinds[kind]; !counted && len(f.kinds) >= most {
		kind = "other"
	}
	f.kinds[kind]++
}

// kindOf names an error in a few words, so that similar errors are counted together.
func kindOf(err error) string {
	for _, kind := range []error{
		rratelimiter.ErrNotInitialized, rratelimiter.ErrPermitsExceedRate, rratelimiter.ErrBadState,
		rratelimiter.ErrInvalidArgument, rratelimiter.ErrNotReplicated, rratelimiter.ErrClosed,
	} {
		if errors.Is(err, kind) {
			return strings.TrimPrefix(kind.Error(), "rratelimiter: ")
		}
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		code, _, _ := strings.Cut(reply.Error(), " ")
		return "Redis replies " + code
	}
	if errors.Is(err, rratelimiter.ErrNoAnswer) || errors.Is(err, io.EOF) {
		return "no reply from Redis"
	}
	return "other"
}

// A Report is the measurements of a run.
type Report struct {
	Seconds float64 `json:"seconds"`
	Calls   int64   `json:"calls"` // with errors
	PerS    float64 `json:"calls_per_s"`
	Permits int64   `json:"permits"` // granted
	PermitS float64 `json:"permits_per_s"`

	Granted Latency          `json:"granted"`
	Refused Latency          `json:"refused"`
	Failed  int64            `json:"failed"` // calls with an error
	Errors  map[string]int64 `json:"errors"` // calls by the kind of the error

	Worst Worst `json:"worst_interval"`
}

// Latency is the number of calls and their latencies in ms.
type Latency struct {
	Calls int64   `json:"calls"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// Worst is the interval with the most permits for this run. A call counts if it began and ended there.
type Worst struct {
	Permits int64 `json:"permits"`
	Rate    int64 `json:"rate"`

	// Checked is false if the rate changed meanwhile, or if the interval is too short for a caller to
	// measure.
	Checked bool `json:"checked"`
}

// Broken reports whether more than the rate was granted.
func (w Worst) Broken() bool { return w.Checked && w.Permits > w.Rate }

// report returns the figures. It reads the rate once more, also if ctx has ended.
func (r *Run) report(ctx context.Context) *Report {
	const patience = 2 * time.Second
	seconds := time.Since(r.start).Seconds()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	now, err := r.limiter.Config(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.fig
	rep := &Report{
		Seconds: seconds, Granted: f.granted.report(), Refused: f.refused.report(),
		Failed: f.failed, Errors: f.kinds,
		Worst: Worst{
			Permits: f.window.Most(), Rate: r.config.Rate,
			Checked: f.window.checks() && err == nil && now == r.config,
		},
	}
	rep.Calls = rep.Granted.Calls + rep.Refused.Calls + rep.Failed
	rep.Permits = rep.Granted.Calls * r.plan.Permits
	rep.PerS, rep.PermitS = float64(rep.Calls)/seconds, float64(rep.Permits)/seconds
	return rep
}

func (l latencies) report() Latency {
	const perMilli = 1000
	at := func(percent float64) float64 { return float64(l.ValueAtPercentile(percent)) / perMilli }
	return Latency{
		Calls: l.calls(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: float64(l.Max()) / perMilli,
	}
}

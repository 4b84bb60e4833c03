package otellimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/otellimit"
	"github.com/redisson-go/rratelimiter/rlock"
)

type (
	observation = rratelimiter.Observation
	numbers     = rratelimiter.Result
)

// A call is counted by its result. Permits, batches, waits, healed drift and near limits are measured.
func TestMetrics(t *testing.T) {
	r := newRig(t)
	for _, o := range []observation{
		{Policy: "user", Permits: 3, Result: numbers{Allowed: true, Limit: 10, Remaining: 7}, Batch: 4},
		{Policy: "user", Permits: 5, Result: numbers{Allowed: true, Limit: 10, Remaining: 2}, Batch: 1},
		{Policy: "user", Permits: 9, Result: numbers{Limit: 10, Remaining: 2}, Batch: 1},
		{Policy: "user", Permits: 1, Result: numbers{Allowed: true}, Queued: 3 * time.Second / 2, Batch: 2,
			Took: 2 * time.Second},
		{Policy: "user", Permits: 1, Err: context.Canceled, Queued: time.Second, Took: time.Second},
		{Permits: 2, Result: numbers{Allowed: true, Degraded: true}},
		{Policy: "a", Permits: 1, Result: numbers{Degraded: true}, Drift: -3},
		{Policy: "a", Permits: 1, Result: numbers{}, Drift: 4, OtherRate: true},
		{Policy: "a", Permits: 1, Result: numbers{}, RateReplaced: true},
		{Policy: "caf\xe9", Permits: 1, Result: numbers{}, RateReplaced: true},
	} {
		r.Observe(t.Context(), o)
	}
	r.want(t, `
		rratelimiter.degraded_requests{policy=a} 1
		rratelimiter.degraded_requests{} 1
		rratelimiter.healed_drift{policy=a} 7
		rratelimiter.limits_with_other_rate{policy=a} 1
		rratelimiter.near_limit_requests{policy=user} 1
		rratelimiter.permits{policy=user} 9
		rratelimiter.permits{} 2
		rratelimiter.replaced_rates{policy=a} 1
		rratelimiter.replaced_rates{policy=caf�} 1
		rratelimiter.request.batch_size{policy=user} 4 of 8
		rratelimiter.request.duration{policy=user,result=granted} 3 of 0.5
		rratelimiter.request.time_in_queue{policy=user,result=canceled} 1 of 1
		rratelimiter.request.time_in_queue{policy=user,result=granted} 1 of 1.5
		rratelimiter.requests{policy=a,result=refused} 3
		rratelimiter.requests{policy=caf�,result=refused} 1
		rratelimiter.requests{policy=user,result=canceled} 1
		rratelimiter.requests{policy=user,result=granted} 3
		rratelimiter.requests{policy=user,result=refused} 1
		rratelimiter.requests{result=granted} 1`)
}

// A call for a lock is measured by its result, and a hold by its duration and whether it was lost.
func TestLocks(t *testing.T) {
	r := newRig(t)
	for _, o := range []rlock.Observation{
		{Name: "alice", Kind: "lock", Granted: true, Waited: time.Second},
		{Name: "alice", Kind: "lock", Waited: time.Second / 2},
		{Name: "alice", Kind: "fair", Err: fmt.Errorf("for alice: %w", rratelimiter.ErrNoAnswer)},
		{Name: "alice", Kind: "fair", Err: rlock.ErrLost},
		{Name: "alice", Kind: "fenced", Ended: true, Held: 2 * time.Second},
		{Name: "alice", Kind: "fenced", Ended: true, Held: time.Second, Lost: true},
	} {
		r.ObserveLock(t.Context(), o)
	}
	r.want(t, `
		rratelimiter.lock.hold_duration{kind=fenced} 2 of 3
		rratelimiter.lock.lost_holds{kind=fenced} 1
		rratelimiter.lock.wait_duration{kind=fair,result=lost} 1 of 0
		rratelimiter.lock.wait_duration{kind=fair,result=no_answer} 1 of 0
		rratelimiter.lock.wait_duration{kind=lock,result=granted} 1 of 1
		rratelimiter.lock.wait_duration{kind=lock,result=refused} 1 of 0.5`)
}

// WithPolicy applies to limiters without a Keyed. An empty policy is none.
func TestWithPolicy(t *testing.T) {
	r := newRig(t, otellimit.WithPolicy(func(limiterName string) string {
		policy, _, _ := strings.Cut(limiterName, ":")
		return policy
	}))
	for _, o := range []observation{
		{Policy: "visits", Result: numbers{Name: "visits:{alice}"}},
		{Result: numbers{Name: "user:alice"}},
		{Result: numbers{Name: "user:bob"}},
		{Result: numbers{Name: "group:alice"}, Err: errors.New("group:alice")},
		{Result: numbers{}},
	} {
		r.Observe(t.Context(), o)
	}
	r.want(t, `
		rratelimiter.requests{policy=group,result=error} 1
		rratelimiter.requests{policy=user,result=refused} 2
		rratelimiter.requests{policy=visits,result=refused} 1
		rratelimiter.requests{result=refused} 1`)
}

// A granted call is near the limit if 80 % of a known limit are used.
func TestNearLimit(t *testing.T) {
	for _, test := range []struct {
		seen numbers
		near bool
	}{
		{numbers{Allowed: true, Limit: 10, Remaining: 3}, false},
		{numbers{Allowed: true, Limit: 10, Remaining: 2}, true},
		{numbers{Allowed: true, Limit: 10}, true},
		{numbers{Allowed: true, Limit: 1}, true},
		{numbers{Limit: 10}, false},
		{numbers{Allowed: true}, false},
		{numbers{Allowed: true, Limit: 10, Degraded: true}, false},
		{numbers{Allowed: true, Limit: 1 << 53, Remaining: 1 << 52}, false},
		{numbers{Allowed: true, Limit: 1 << 53}, true},
	} {
		r := newRig(t)
		r.Observe(t.Context(), observation{Permits: 1, Result: test.seen})
		if _, near := r.measured(t)["rratelimiter.near_limit_requests{}"]; near != test.near {
			t.Errorf("%+v: near %v", test.seen, near)
		}
	}
}

// Each error has one of a few results, also if it is wrapped. Of several, no_answer counts.
func TestResults(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{rratelimiter.ErrNoAnswer, "no_answer"},
		{errors.Join(context.DeadlineExceeded, rratelimiter.ErrNoAnswer), "no_answer"},
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "timeout"},
		{rratelimiter.ErrNotInitialized, "not_initialized"},
		{rratelimiter.ErrPermitsExceedRate, "permits_exceed_rate"},
		{rratelimiter.ErrInvalidArgument, "invalid_argument"},
		{rratelimiter.ErrBadState, "bad_state"},
		{rratelimiter.ErrNotReplicated, "not_replicated"},
		{rratelimiter.ErrClosed, "closed"},
		{errors.New("user:alice"), "error"},
	} {
		r := newRig(t)
		r.Observe(t.Context(), observation{Permits: 1, Err: fmt.Errorf("for %q: %w", "user:alice", test.err)})
		r.want(t, "rratelimiter.requests{result="+test.want+"} 1")
	}
}

// Units and bounds are the documented ones.
func TestInstruments(t *testing.T) {
	r := newRig(t)
	r.Observe(t.Context(), everything)
	units := map[string]string{
		"rratelimiter.request.time_in_queue": "s", "rratelimiter.request.duration": "s",
		"rratelimiter.permits": "{permit}", "rratelimiter.healed_drift": "{permit}",
		"rratelimiter.limits_with_other_rate": "{limit}", "rratelimiter.replaced_rates": "{rate}",
	}
	for name, bounds := range map[string]string{
		"rratelimiter.request.time_in_queue": "[0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1 " +
			"2.5 5 7.5 10]",
		"rratelimiter.request.duration": "[0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 " +
			"0.25 0.5 1 2.5 5]",
		"rratelimiter.request.batch_size": "[1 2 5 10 20 50 100 200 500 1000]",
	} {
		var got string
		switch h := r.collect(t)[name].Data.(type) {
		case metricdata.Histogram[float64]:
			got = fmt.Sprint(h.DataPoints[0].Bounds)
		case metricdata.Histogram[int64]:
			got = fmt.Sprint(h.DataPoints[0].Bounds)
		}
		if got != bounds {
			t.Errorf("%s: %s, want %s", name, got, bounds)
		}
	}
	for name, m := range r.collect(t) {
		unit := cmp.Or(units[name], "{request}")
		if m.Unit != unit || !strings.HasSuffix(m.Description, ".") {
			t.Errorf("%s is in %s and described as %q, want %s", name, m.Unit, m.Description, unit)
		}
	}
}

// everything is an observation with a value for each metric.
var everything = observation{
	Policy: "user", Permits: 1, Result: numbers{Allowed: true, Limit: 1},
	Took: time.Second, Queued: time.Second, Batch: 1, Drift: 1, OtherRate: true,
	RateReplaced: true,
}

// The number of time series is bounded, whatever the number of policies.
func TestPoliciesAreBounded(t *testing.T) {
	const most = 1000
	r := newRig(t)
	for i := range 2 * most {
		r.Observe(t.Context(), observation{Policy: fmt.Sprint("p", i), Permits: 1, Result: numbers{}})
	}
	r.Observe(t.Context(), observation{Policy: "p0", Permits: 1, Result: numbers{}})
	values := r.measured(t)
	if len(values) != 2*(most+1) {
		t.Errorf("%d time series", len(values))
	}
	if got := values["rratelimiter.requests{policy=_OTHER,result=refused}"]; got != fmt.Sprint(most) {
		t.Errorf("%s calls of other policies, want %d", got, most)
	}
	if got := values["rratelimiter.requests{policy=p0,result=refused}"]; got != "2" {
		t.Errorf("%s calls of policy p0, want 2", got)
	}
}

// A call that waited is a span from its beginning to its end, in the span of its caller. Its status is
// Error if the call failed, unless it was canceled, and it does not contain the limiter's name.
func TestSpan(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		observation
		attributes  string
		code        codes.Code
		description string
	}{
		{observation{Result: numbers{Allowed: true}},
			"permits=3,policy=user,result=granted", codes.Unset, ""},
		{observation{Err: fmt.Errorf("%w for %q", rratelimiter.ErrNoAnswer, "user:alice")},
			"permits=3,policy=user,result=no_answer", codes.Error, "no_answer"},
		{observation{Err: context.DeadlineExceeded},
			"permits=3,policy=user,result=timeout", codes.Error, "timeout"},
		{observation{Err: context.Canceled}, "permits=3,policy=user,result=canceled", codes.Unset, ""},
	} {
		r := newRig(t)
		ctx, parent := r.tracer.Tracer("test").Start(t.Context(), "handler")
		o := test.observation
		o.Policy, o.Permits, o.Start, o.Took, o.Queued = "user", 3, start, 3*time.Second, 2*time.Second
		r.Observe(ctx, o)
		o.Queued = 0
		r.Observe(ctx, o)
		spans := r.spans.GetSpans()
		if len(spans) != 1 {
			t.Fatalf("%d spans", len(spans))
		}
		s := spans[0]
		if s.Name != "rratelimiter.acquire" || s.Parent.SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("span %s in %v", s.Name, s.Parent.SpanID())
		}
		if !s.StartTime.Equal(start) || s.EndTime.Sub(start) != 3*time.Second {
			t.Errorf("from %v to %v", s.StartTime, s.EndTime)
		}
		attributes := attribute.NewSet(s.Attributes...)
		got := attributes.Encoded(attribute.DefaultEncoder())
		if got != test.attributes || len(s.Events) > 0 {
			t.Errorf("attributes %s, want %s; events %v", got, test.attributes, s.Events)
		}
		if s.Status.Code != test.code || s.Status.Description != test.description {
			t.Errorf("%v: status %v", o.Err, s.Status)
		}
	}
}

// The largest numbers of an Observation are measured.
func TestLargestNumbers(t *testing.T) {
	r := newRig(t)
	r.Observe(t.Context(), observation{Permits: 1 << 53, Result: numbers{Allowed: true, Limit: 1 << 53},
		Queued: math.MaxInt64, Took: math.MaxInt64, Batch: math.MaxInt32, Drift: -1 << 53})
	if got := r.measured(t)["rratelimiter.healed_drift{}"]; got != fmt.Sprint(1<<53) {
		t.Errorf("healed %s", got)
	}
}

// cases are calls that did not wait: those have no span.
var cases = map[string]observation{
	"granted": {
		Policy: "user", Permits: 1, Result: numbers{Allowed: true, Limit: 100, Remaining: 90},
		Took: time.Millisecond, Batch: 1,
	},
	"refused": {Policy: "user", Permits: 1, Result: numbers{Limit: 100}, Took: time.Millisecond, Batch: 1},
	"everything": {
		Policy: "user", Permits: 1, Result: numbers{Allowed: true, Limit: 100},
		Took: time.Millisecond, Batch: 8, Drift: 2,
	},
}

// A call that did not wait allocates nothing: its attributes are made once.
func TestObserveAllocatesNothing(t *testing.T) {
	for name, seen := range cases {
		o := newRig(t)
		if got := testing.AllocsPerRun(100, func() { o.Observe(context.Background(), seen) }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

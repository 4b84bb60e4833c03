package otellimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
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
		{Policy: "user", Permits: 3, Result: numbers{Allowed: true, Limit: 10, Remaining: 3}, Batch: 4},
		{Policy: "user", Permits: 5, Result: numbers{Allowed: true, Limit: 10, Remaining: 2}, Batch: 1},
		{Policy: "user", Permits: 9, Result: numbers{Limit: 10, Remaining: 2}, Batch: 1},
		{Policy: "user", Permits: 1, Result: numbers{Allowed: true}, Queued: 3 * time.Second / 2, Batch: 2,
			Took: 2 * time.Second},
		{Policy: "user", Permits: 1, Err: context.Canceled, Queued: time.Second, Took: time.Second},
		{Permits: 2, Result: numbers{Allowed: true, Degraded: true, Limit: 1}},
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
	r := newRig(t, otellimit.WithPolicy(kindOf))
	for _, o := range []observation{
		{Policy: "visits", Result: numbers{Name: "visits:{alice}"}},
		{Result: numbers{Name: "user:alice"}},
		{Result: numbers{Name: "user:bob"}},
		{Result: numbers{Name: "group:alice"}, Err: errors.New("group:alice")},
		{Result: numbers{Name: "alice"}},
	} {
		r.Observe(t.Context(), o)
	}
	r.want(t, `
		rratelimiter.requests{policy=group,result=error} 1
		rratelimiter.requests{policy=user,result=refused} 2
		rratelimiter.requests{policy=visits,result=refused} 1
		rratelimiter.requests{result=refused} 1`)
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

// The bounds of the histograms of times are documented.
func TestBounds(t *testing.T) {
	r := newRig(t)
	r.Observe(t.Context(), everything)
	for name, want := range map[string][2]float64{
		"rratelimiter.request.time_in_queue": {0.005, 10}, "rratelimiter.request.duration": {0.0001, 5},
	} {
		h, _ := r.collect(t)[name].Data.(metricdata.Histogram[float64])
		if b := h.DataPoints[0].Bounds; b[0] != want[0] || b[len(b)-1] != want[1] {
			t.Errorf("%s: %v, want %v", name, b, want)
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
	noAnswer := fmt.Errorf("%w for %q", rratelimiter.ErrNoAnswer, "user:alice")
	for _, test := range []struct {
		observation
		result string
		status sdktrace.Status
	}{
		{observation{Result: numbers{Allowed: true}}, "granted", sdktrace.Status{}},
		{observation{Err: noAnswer}, "no_answer",
			sdktrace.Status{Code: codes.Error, Description: "no_answer"}},
		{observation{Err: context.DeadlineExceeded}, "timeout",
			sdktrace.Status{Code: codes.Error, Description: "timeout"}},
		{observation{Err: context.Canceled}, "canceled", sdktrace.Status{}},
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
		if s.Name != "rratelimiter.acquire" || s.Parent.SpanID() != parent.SpanContext().SpanID() ||
			!s.StartTime.Equal(start) || s.EndTime.Sub(start) != 3*time.Second {
			t.Errorf("span %s in %v, from %v to %v", s.Name, s.Parent.SpanID(), s.StartTime, s.EndTime)
		}
		attributes := attribute.NewSet(s.Attributes...)
		got := attributes.Encoded(attribute.DefaultEncoder())
		want := "permits=3,policy=user,result=" + test.result
		if got != want || len(s.Events) > 0 || s.Status != test.status {
			t.Errorf("%v: attributes %s, events %v, status %v", o.Err, got, s.Events, s.Status)
		}
	}
}

// A call that did not wait allocates nothing: its attributes are made once.
func TestObserveAllocatesNothing(t *testing.T) {
	refused, all := observation{Policy: "user", Permits: 1, Result: numbers{Limit: 100}, Batch: 1}, everything
	all.Queued = 0
	for _, seen := range []observation{refused, all} {
		o := newRig(t)
		if got := testing.AllocsPerRun(100, func() { o.Observe(context.Background(), seen) }); got != 0 {
			t.Errorf("%+v: %v allocations", seen, got)
		}
	}
}

// Each call of a Client is counted once, a call that waited is a span, and a limiter without a Keyed has
// the policy of its name.
func TestObserverOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otellimit.WithPolicy(kindOf))
		c := rratelimiter.New(redistest.MiniClient(t, redistest.Mini(t)), rratelimiter.WithObserver(r))
		defer c.Close()
		limiter := c.RateLimiter("user:alice").WithRate(10, time.Minute)
		for _, permits := range []int64{8, 3} { // near the limit with the first, refused with the second
			redistest.Must(limiter.Allow(t.Context(), permits))(t)
		}
		redistest.NoError(t, limiter.Acquire(t.Context(), 3))
		values := r.measured(t)
		for name, want := range map[string]string{
			"requests{policy=user,result=granted}": "2", "requests{policy=user,result=refused}": "1",
			"permits{policy=user}": "11", "near_limit_requests{policy=user}": "1",
			"request.time_in_queue{policy=user,result=granted}": "1 of 60",
		} {
			if got := values["rratelimiter."+name]; !strings.HasPrefix(got, want) {
				t.Errorf("%s is %q, want %s", name, got, want)
			}
		}
		if spans := r.spans.GetSpans(); len(spans) != 1 {
			t.Errorf("spans: %v", spans)
		}
	})
}

// The metrics are the sum over all watched Clients; without any there is no value.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		one, two := rratelimiter.New(rdb), rratelimiter.New(rdb)
		defer one.Close()
		defer two.Close()
		r.want(t, "")

		stopOne, again, stopTwo := r.Watch(one), r.Watch(one), r.Watch(two)
		wantQueued := func(want string) {
			t.Helper()
			r.want(t, `
				rratelimiter.degraded_clients{} 0
				rratelimiter.queued_requests{} `+want+`
				rratelimiter.unbooked_permits{} 0`)
		}
		wantQueued("0")

		redistest.NoError(t, one.RateLimiter("watched").WithRate(1, time.Hour).Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []*rratelimiter.Client{one, one, two} {
			go func() { _ = c.RateLimiter("watched").Acquire(ctx, 1) }()
		}
		synctest.Wait()
		wantQueued("3")
		stopTwo()
		stopTwo()
		wantQueued("2")
		stopOne()
		stopOne()
		wantQueued("2") // it is watched twice
		cancel()
		synctest.Wait()
		wantQueued("0")
		again()
		r.want(t, "")
	})
}

// A degraded Client and its unbooked permits are counted.
func TestWatchOfADegradedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, server := newRig(t), redistest.Mini(t)
		c := rratelimiter.New(redistest.MiniClient(t, server),
			rratelimiter.WithFallback(rratelimiter.FallbackLocal), rratelimiter.WithLocalShare(1))
		defer c.Close()
		r.Watch(c)
		limiter := c.RateLimiter("degraded").WithRate(100, time.Hour)
		for range 10 { // the second call learns that Redis is away
			redistest.Must(limiter.Allow(t.Context(), 1))(t)
			server.SetError("LOADING Redis is loading the dataset in memory")
		}
		r.want(t, `
			rratelimiter.degraded_clients{} 1
			rratelimiter.queued_requests{} 0
			rratelimiter.unbooked_permits{} 9`)
	})
}

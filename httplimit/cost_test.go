package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// A blank is a ResponseWriter that allocates nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

// costs returns a function that sends one request through a Middleware to an empty handler.
func costs(tb testing.TB, result limit.Result) func() {
	m := newMiddleware(tb, says(result, nil), httplimit.ByAddress(), httplimit.WithPolicies("burst", "daily"))
	handler := m.Handler(ignore)
	// The context of a server's request can end.
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	r := get(tb).WithContext(ctx)
	r.RemoteAddr = "203.0.113.7:4711"
	h := http.Header{}
	return func() {
		clear(h)
		h["Content-Type"] = nil // every response has a header, whose first entry allocates
		handler.ServeHTTP(blank{h}, r)
	}
}

var (
	granted = limit.Result{
		Allowed: true, Limit: 100, Interval: time.Minute, Remaining: 50, ResetAfter: 30 * time.Second,
	}
	denied = limit.Result{Limit: 100, Interval: time.Minute, RetryAfter: time.Second, ResetAfter: time.Minute}
	two    = limit.Result{Allowed: true, Limit: 100, Each: []limit.Result{granted, granted}}
)

// measured are the requests that the test and the benchmark share.
var measured = []struct {
	name   string
	result limit.Result
}{{"granted", granted}, {"two", two}, {"refused", denied}}

// A request costs at most 10 allocations, besides those of the limiter.
func TestRequestCostsAtMostTenAllocations(t *testing.T) {
	for _, test := range measured {
		if got := testing.AllocsPerRun(1000, costs(t, test.result)); got > 10 {
			t.Errorf("%s: %v allocations, want at most 10", test.name, got)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	for _, bench := range measured {
		b.Run(bench.name, func(b *testing.B) {
			request := costs(b, bench.result)
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}

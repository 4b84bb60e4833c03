package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// A blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

// costs are the requests whose cost is measured: the middleware is asked, a handler that
// does nothing runs, and the limiter is in memory. waits means that the limiter waits for
// the end of its context, as one with Redis does.
func costs(tb testing.TB, result limit.Result, waits bool) func() {
	keyed := limit.KeyedFunc(func(ctx context.Context, _ string, _ int64) (limit.Result, error) {
		if waits {
			select {
			case <-ctx.Done():
				return limit.Result{}, ctx.Err()
			default:
			}
		}
		return result, nil
	})
	m := newMiddleware(tb, keyed, httplimit.ByAddress(), httplimit.WithPolicies("burst", "daily"))
	handler := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	// The request of a server has a context that can end.
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	r := get(tb).WithContext(ctx)
	r.RemoteAddr = "203.0.113.7:4711"
	h := http.Header{}
	return func() {
		clear(h)
		h["Content-Type"] = nil // every response has a header, whose first entry costs memory
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

// measured are the requests of TestAllocations and BenchmarkMiddleware.
var measured = []struct {
	name   string
	result limit.Result
	waits  bool
}{
	{"granted", granted, false}, {"two", two, false}, {"refused", denied, false},
	{"waits", granted, true}, {"two waits", two, true},
}

// A request costs at most 6 allocations, besides those of the limiter.
func TestAllocations(t *testing.T) {
	for _, test := range measured {
		if got := testing.AllocsPerRun(1000, costs(t, test.result, test.waits)); got > 6 {
			t.Errorf("%s: %v allocations, want at most 6", test.name, got)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	for _, bench := range measured {
		b.Run(bench.name, func(b *testing.B) {
			request := costs(b, bench.result, bench.waits)
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}

package main

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
)

// middlewarePart shows what package httplimit itself adds to a request.
var middlewarePart = &part{
	name: "middleware", set: setPage, measure: measureMiddleware,
	about: "time and Go allocations that the middleware adds to a request, besides the limiter",
}

// A layer is a handler that does nothing, with or without a middleware.
type layer struct {
	name    string
	handler http.Handler
	beyond  int // the place of the layer that it is compared with
}

// The places of layers in the table.
const (
	bareLayer = iota
	grantedLayer
	twoLayer
	refusedLayer
	askingLayer // a handler that asks the limiter itself
	userLayer   // a handler behind httplimit with that limiter
)

// newLayers makes all layers. Limiters are in memory: those of package httplimit
// return the same each time, the others count. One is this library over a
// connection that replies at once: it asks its context for the end, so that the
// timer of httplimit is made.
func newLayers(s *scope) ([]layer, error) {
	bare := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	granted := limit.Result{
		Allowed: true, Limit: 100, Interval: time.Minute, Remaining: 50, ResetAfter: 30 * time.Second,
	}
	refused := limit.Result{
		Limit: 100, Interval: time.Minute, RetryAfter: time.Second, ResetAfter: time.Minute,
	}
	users := s.instantly(replyNumbers).Keyed("users", 100, time.Minute)
	asking := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = users.Allow(r.Context(), "203.0.113.7", 1)
	})
	layers := []layer{
		bareLayer:   {"the handler alone", bare, bareLayer},
		askingLayer: {"a handler that asks this library", asking, bareLayer},
		userLayer:   {},
	}
	for i, one := range map[int]struct {
		name   string
		keyed  limit.Keyed
		beyond int
	}{
		grantedLayer: {"httplimit, granted", constantly(granted), bareLayer},
		twoLayer: {"httplimit, granted by two limits", constantly(limit.Result{
			Allowed: true, Limit: 100, Each: []limit.Result{granted, granted},
		}), bareLayer},
		refusedLayer: {"httplimit, refused", constantly(refused), bareLayer},
		userLayer:    {"httplimit with this library, beyond that", users, askingLayer},
	} {
		m, err := httplimit.New(one.keyed, httplimit.ByAddress(), httplimit.WithPolicies("burst", "daily"))
		if err != nil {
			return nil, err
		}
		layers[i] = layer{one.name, m.Handler(bare), one.beyond}
	}
	const plenty = 1_000_000_000
	inMemory := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Hour, Limit: plenty})
	return append(layers,
		layer{"httprate, its limiter in memory", httprate.LimitBy(plenty, time.Hour, peerOf)(bare), 0},
		layer{"ulule/limiter, its limiter in memory", stdlib.NewMiddleware(inMemory).Handler(bare), 0},
	), nil
}

// peerOf is the key by address that httprate recommends.
func peerOf(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}

// constantly returns a limiter that costs nothing.
func constantly(result limit.Result) limit.Keyed {
	return limit.KeyedFunc(func(context.Context, string, int64) (limit.Result, error) { return result, nil })
}

// A layerResult is what one layer showed.
type layerResult struct {
	layer
	ns     []float64 // per request, by round
	allocs float64
}

// measureMiddleware lets layers take turns.
func measureMiddleware(ctx context.Context, s *scope) (finding, error) {
	layers, err := newLayers(s)
	if err != nil {
		return finding{}, err
	}
	// The request of a server has a context that can end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	if err != nil {
		return finding{}, err
	}
	r.RemoteAddr = "203.0.113.7:4711"
	h := http.Header{}
	results, jobs := make([]layerResult, len(layers)), make([]func() error, len(layers))
	for i, l := range layers {
		jobs[i] = func() error {
			clear(h)
			h["Content-Type"] = nil // every response has a header, whose first entry costs memory
			l.handler.ServeHTTP(blank{h}, r)
			return nil
		}
		results[i].layer = l
		results[i].allocs = testing.AllocsPerRun(amount(s, 2000, 20), func() { _ = jobs[i]() })
	}
	times, err := loops(ctx, jobs, amount(s, 1500, 1), amount(s, 200, 20))
	if err != nil {
		return finding{}, err
	}
	for i := range results {
		results[i].ns = times[i]
	}
	return finding{middlewareDataOf(results), middlewareTargets(results)}, nil
}

// loops runs each of jobs so many times in a row, in turns, and returns by job how
// many ns a run took in each round. On a busy machine rounds should be shorter than
// a slice of time of the system, some ms: then most of them are not interrupted, and
// neither is their median.
func loops(ctx context.Context, jobs []func() error, rounds, times int) ([][]float64, error) {
	ns := make([][]float64, len(jobs))
	for round := range rounds {
		for i := range jobs {
			who := (i + round) % len(jobs)
			start := time.Now()
			for range times {
				if err := jobs[who](); err != nil {
					return nil, err
				}
			}
			ns[who] = append(ns[who], float64(time.Since(start))/float64(times))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return ns, nil
}

// beyond returns by how much a exceeds b: the median of the rounds.
func beyond(a, b []float64) float64 {
	more := make([]float64, len(a))
	for i := range a {
		more[i] = a[i] - b[i]
	}
	return quantile(more, 0.5)
}

// A middlewareData is what the page shows of it.
type middlewareData struct{ Rows []middlewareRow }

// A middlewareRow is what a middleware adds to a request.
type middlewareRow struct {
	Name       string
	NS, Allocs float64
}

// middlewareDataOf returns what each layer adds to the one that it is compared with.
func middlewareDataOf(results []layerResult) *middlewareData {
	d := new(middlewareData)
	for _, r := range results[1:] {
		other := results[r.beyond]
		d.Rows = append(d.Rows, middlewareRow{r.name, beyond(r.ns, other.ns), r.allocs - other.allocs})
	}
	return d
}

// middlewareTargets returns the targets.
func middlewareTargets(results []layerResult) (all []target) {
	rows := middlewareDataOf(results).Rows // without the first layer
	for _, i := range []int{grantedLayer, twoLayer, refusedLayer, userLayer} {
		row := rows[i-1]
		all = append(all,
			most("T12", row.Name+": added to a request", row.NS/1000, 2, " µs"),
			most("T12", row.Name+": allocations added to a request", row.Allocs, 6, ""))
	}
	return all
}

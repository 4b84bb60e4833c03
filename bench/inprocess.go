package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

// An inProcess is work of this process alone.
type inProcess struct {
	name   string
	do     func() error
	beyond int // the place of the work that it is compared with

	ns     []num // by round
	allocs num
}

func measureInProcess(ctx context.Context, s *scope, jobs []*inProcess, times int) {
	runs := make([]func() error, len(jobs))
	for i, j := range jobs {
		runs[i] = j.do
		j.allocs = num(testing.AllocsPerRun(amount(s, 5000, 20), func() { _ = j.do() }))
	}
	ns := get(loops(ctx, runs, amount(s, 1500, 1), amount(s, times, 20)))
	for i := range ns {
		jobs[i].ns = ns[i]
	}
}

// more returns the ns by which a job exceeds another one: the median of the rounds.
func (j *inProcess) more(other *inProcess) num {
	more := make([]num, len(j.ns))
	for i := range more {
		more[i] = j.ns[i] - other.ns[i]
	}
	return quantile(more, 0.5)
}

// newLayers makes handlers that do nothing, without and with a middleware. Limiters are in memory: those of
// package httplimit return the same each time, the others count. One is this library, with a Redis that
// replies at once: the timer of httplimit is made.
func newLayers(s *scope) (handlers []http.Handler, jobs []*inProcess) {
	add := func(name string, beyond int, h http.Handler) {
		handlers, jobs = append(handlers, h), append(jobs, &inProcess{name: name, beyond: beyond})
	}
	bare := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	limited := func(name string, beyond int, keyed limit.Keyed) {
		m := get(httplimit.New(keyed, httplimit.ByAddress(), httplimit.WithPolicies("burst", "daily")))
		add(name, beyond, m.Handler(bare))
	}
	constantly := func(r limit.Result) limit.Keyed {
		return limit.KeyedFunc(func(context.Context, string, int64) (limit.Result, error) { return r, nil })
	}
	granted := limit.Result{
		Allowed: true, Limit: 100, Interval: time.Minute, Remaining: 50, ResetAfter: 30 * time.Second,
	}
	users := s.instantly([]any{
		int64(0), int64(100), int64(99), int64(0), int64(60000), int64(60000), int64(0), int64(1), int64(0),
	}).Keyed("users", 100, time.Minute)
	const asking = 4 // the place of a handler that asks the limiter itself
	add("the handler alone", 0, bare)
	limited("httplimit, granted", 0, constantly(granted))
	limited("httplimit, granted by two limits", 0,
		constantly(limit.Result{Allowed: true, Limit: 100, Each: []limit.Result{granted, granted}}))
	limited("httplimit, refused", 0, constantly(limit.Result{
		Limit: 100, Interval: time.Minute, RetryAfter: time.Second, ResetAfter: time.Minute,
	}))
	add("a handler that asks this library", 0, http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { _, _ = users.Allow(r.Context(), "203.0.113.7", 1) }))
	limited("httplimit with this library, beyond that", asking, users)
	const plenty = 1_000_000_000
	inMemory := ulule.New(memory.NewStore(), ulule.Rate{Period: time.Hour, Limit: plenty})
	add("httprate, its limiter in memory", 0, httprate.LimitBy(plenty, time.Hour, peerOf)(bare))
	add("ulule/limiter, its limiter in memory", 0, stdlib.NewMiddleware(inMemory).Handler(bare))
	return handlers, jobs
}

// peerOf is the key by address that httprate recommends.
func peerOf(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}

type middlewareRow struct {
	Name       string
	NS, Allocs num
}

func measureMiddleware(ctx context.Context, s *scope) finding {
	handlers, jobs := newLayers(s)
	// The request of a server has a context that can end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := get(http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	r.RemoteAddr = "203.0.113.7:4711"
	h := http.Header{}
	for i, j := range jobs {
		j.do = func() error {
			clear(h)
			h["Content-Type"] = nil // every response has a header, whose first entry costs memory
			handlers[i].ServeHTTP(blank{h}, r)
			return nil
		}
	}
	measureInProcess(ctx, s, jobs, 200)
	var rows []middlewareRow
	var targets []target
	for _, j := range jobs[1:] {
		other := jobs[j.beyond]
		row := middlewareRow{j.name, j.more(other), j.allocs - other.allocs}
		rows = append(rows, row)
		if strings.HasPrefix(j.name, "httplimit") {
			targets = append(targets,
				most("T12", row.Name+": added to a request", row.NS/1000, 2, " µs"),
				most("T12", row.Name+": allocations added to a request", row.Allocs, 6, ""))
		}
	}
	return finding{struct{ Rows []middlewareRow }{rows}, targets}
}

// An observerRow is one kind of call, in turns by Clients with and without an observer.
type observerRow struct {
	Name string

	// ns of a call: without an observer, by a second Client without one, and with one.
	Without, Again, With num
	Added, Noise         num // ns by which With and Again exceed Without

	Allocs, AllocsWith num
}

type nobody struct{}

// Observe does nothing.
func (nobody) Observe(context.Context, rratelimiter.Observation) {}

// measureObserver measures three Clients in turns. Two of them are alike: what they differ by is noise.
func measureObserver(ctx context.Context, s *scope) finding {
	clients := []*rratelimiter.Client{
		s.instantly(int64(0)), s.instantly(int64(0)),
		s.instantly(int64(0), rratelimiter.WithObserver(nobody{})),
	}
	var rows []observerRow
	for _, kind := range []struct {
		name string
		ask  func(*rratelimiter.Client) ask
	}{
		{"TryAcquire", func(c *rratelimiter.Client) ask { return tryAcquire(c.RateLimiter("limiter")) }},
		{"TryAcquire of a user", func(c *rratelimiter.Client) ask {
			t := c.Keyed("users", 100, time.Minute)
			return func(ctx context.Context) (bool, error) { return t.TryAcquire(ctx, "42", 1, 0) }
		}},
	} {
		jobs := make([]*inProcess, len(clients))
		for i, c := range clients {
			once := kind.ask(c)
			jobs[i] = &inProcess{do: func() error { return granted(once(ctx)) }}
		}
		measureInProcess(ctx, s, jobs, 40)
		ns := func(j *inProcess) num { return quantile(slices.Clone(j.ns), 0.5) }
		without, again, with := jobs[0], jobs[1], jobs[2]
		rows = append(rows, observerRow{
			kind.name, ns(without), ns(again), ns(with), with.more(without), again.more(without),
			without.allocs, with.allocs,
		})
	}
	lone := rows[0]
	return finding{struct{ Rows []observerRow }{rows}, []target{
		most("T13", "without an observer: a TryAcquire by another one without it, 1 but for noise",
			1+lone.Noise/lone.Without, 1+tolerance, ""),
		most("T13", "an observer that does nothing: added to a TryAcquire", lone.Added/1000, 2, " µs"),
		most("T13", "an observer that does nothing: allocations added to a TryAcquire",
			lone.AllocsWith-lone.Allocs, 0, ""),
	}}
}

// instantly returns a Client whose Redis gives the same reply to each script, at once. A real one takes so
// long that what an observer costs could not be seen.
func (s *scope) instantly(reply any, opts ...rratelimiter.Option) *rratelimiter.Client {
	rdb := redis.NewClient(&redis.Options{})
	rdb.AddHook(fixtures.Answering(func(cmd redis.Cmder) bool {
		if c, ok := cmd.(interface{ SetVal(reply any) }); ok && cmd.Name() == "evalsha" {
			c.SetVal(reply)
		} else {
			cmd.SetErr(errors.New("ERR unknown command"))
		}
		return true
	}))
	s.Cleanup(func() { _ = rdb.Close() })
	return s.client(rdb, opts...)
}

package rls

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const short = 15 * time.Millisecond

// While Redis hangs, each fallback decides as its name says, and within the budget.
func TestFallbacks(t *testing.T) {
	for fallback, want := range map[string][]string{
		fallbackAllow: {"a=x*9", "OK: OK 0", "a=x", "OK: OK 0", "a=x", "OK: OK 0", "a=x*0", "OK: OK 0"},
		fallbackDeny:  {"a=x", "OVER: OVER 0", "a=x*0", "OVER: OVER 0", "a=x*-1", "OK: OK 0"},
		fallbackError: {"a=x", "error: Unavailable", "a=x*0", "error: Unavailable", "a=x*-1",
			"error: Unavailable"},
	} {
		for _, algorithm := range []string{exact, fixedWindow} {
			t.Run(fallback+" "+algorithm, func(t *testing.T) {
				server := redistest.Start(t)
				s := serve(t, server.Client(t), Options{Budget: short},
					"domain: d\ndescriptors: [{key: a, fallback: "+fallback+
						", rate_limit: {unit: hour, requests_per_unit: 6, algorithm: "+algorithm+"}}]")
				redistest.Eventually(t, "Redis decides", func() bool {
					return strings.HasPrefix(ask(t, s, "a=x"), "OK")
				})
				server.Freeze(t)
				start := time.Now()
				asks(t, s, want...)
				// Without a budget the first request alone would wait 5 s.
				if took := time.Since(start); took >= 5*time.Second {
					t.Errorf("%d requests took %v", len(want)/2, took)
				}
			})
		}
	}
}

// The default fallback keeps the limit while Redis hangs: what Redis granted before counts, and what the
// service granted meanwhile is booked afterwards.
func TestTheLocalFallbackKeepsTheLimit(t *testing.T) {
	server := redistest.Start(t)
	var failed, back atomic.Bool // what the hook has heard of
	o := Options{Budget: 250 * time.Millisecond, OnHealth: func(h rratelimiter.Health) {
		failed.Store(failed.Load() || h.Degraded)
		back.Store(failed.Load() && !h.Degraded)
	}}
	s := serve(t, server.Client(t), o,
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, "+
			"requests_per_unit: 6}}]")
	asks(t, s, "a=x", "OK: OK 5")
	thaw := server.Freeze(t)
	asks(t, s, "a=x", "OK: OK 4", "a=x*3", "OK: OK 1", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0")
	if h := s.Health(); h.Decided == 0 || h.Unbooked == 0 {
		t.Errorf("health is %+v", h)
	}
	redistest.Eventually(t, "the hook hears that Redis fails", func() bool {
		asks(t, s, "a=x", "OVER: OVER 0")
		return failed.Load()
	})
	thaw()
	redistest.Eventually(t, "the hook hears that Redis is back", back.Load)
	redistest.Eventually(t, "all permits are booked", func() bool { return s.Health().Unbooked == 0 })
	asks(t, s, "a=x*0", "OVER: OVER 0")
}

// While Redis hangs, more hits than a limit ever has are refused, as otherwise.
func TestTheLocalFallbackRefusesTooManyHits(t *testing.T) {
	server := redistest.Start(t)
	s := serve(t, server.Client(t), Options{Budget: short}, "domain: d\ndescriptors:\n"+
		"- {key: a, rate_limit: {unit: hour, requests_per_unit: 6}}\n"+
		"- {key: b, rate_limit: {unit: hour, requests_per_unit: 6, algorithm: gcra}}\n"+
		"- {key: c, fallback: allow, rate_limit: {unit: hour, requests_per_unit: 6}}\n")
	together := serve(t, server.Client(t), Options{Budget: short}, "domain: d\nall_or_none: true\n"+
		"descriptors:\n"+
		"- {key: a, rate_limit: {unit: hour, requests_per_unit: 6}}\n"+
		"- {key: b, rate_limit: {unit: hour, requests_per_unit: 7}}\n")
	server.Freeze(t)
	for _, c := range []struct {
		s        *Service
		in, want string
	}{
		{s, "a=x", "OVER: OVER 0"}, {s, "b=x", "OVER: OVER 6"}, {s, "c=x", "OK: OK 0"},
		{together, "a=x; b=x", "OVER: OVER 0, OK 0"},
	} {
		in := request("d", c.in)
		in.HitsAddend = 7
		if out, err := c.s.ShouldRateLimit(t.Context(), in); err != nil || shown(out) != c.want {
			t.Errorf("%s: %v, %v; want %s", c.in, shown(out), err, c.want)
		}
	}
}

// With another algorithm the local fallback is a limiter in this process, with the same numbers. Of many
// failures few are reported.
func TestTheLocalFallbackOfOtherAlgorithms(t *testing.T) {
	server := redistest.Start(t)
	start, reports := time.Now(), 0
	s := serve(t, server.Client(t), Options{Budget: short, OnFailure: func(error) { reports++ }},
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, "+
			"requests_per_unit: 2, algorithm: token_bucket}}]")
	server.Freeze(t)
	longest := "a=" + strings.Repeat("y", maxKey-len("a="))
	asks(t, s, "a=x", "OK: OK 1", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0", longest, "OK: OK 1")
	if most := 1 + int(time.Since(start)/betweenFailures); reports < 1 || reports > most {
		t.Errorf("%d failures are reported, want 1 to %d", reports, most)
	}
}

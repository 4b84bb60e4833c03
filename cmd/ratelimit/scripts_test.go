package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Each script of the reference service's integration tests, retold: requests through a real Envoy, with a
// path, header fields and the status that it must have.
func TestScriptsOfTheReference(t *testing.T) {
	for script, steps := range map[string][]string{
		"simple-get": {"/twoheader foo: test, baz: shady = 200"},
		"trigger-ratelimit": {"3 /twoheader foo: pelle, baz: not-so-shady = 200",
			"2 /twoheader foo: pelle, baz: not-so-shady = 429"},
		"trigger-shadow-mode-key": {
			"6 /twoheader foo: pelle, baz: shady = 200",
		},
		"replaces": {
			"/twoheader foo: a, bar: banned = 429", "/fourheader foo: a, bar: banned, from: proxy, to: " +
				"mock = 429",
			"2 /fourheader foo: a, bar: banned, from: proxy, to: override = 200",
			"/fourheader foo: a, bar: banned, from: proxy, to: override = 429",
			"2 /fourheader foo: b, bar: strict, from: proxy, to: strict = 200",
			"/fourheader foo: b, bar: strict, from: proxy, to: strict = 429",
			"/fourheader foo: b, bar: strict, from: proxy, to: other = 200",
			"/fourheader foo: b, bar: strict, from: proxy, to: other = 429",
			"4 /fiveheader foo: b, bar: strict, from: proxy, to: narrow, plan: gold = 200",
			"/fiveheader foo: b, bar: strict, from: proxy, to: narrow, plan: gold = 429",
			"/twoheader foo: c, bar: strict = 200", "/twoheader foo: c, bar: strict = 429",
			"2 /fourheader foo: d, bar: d, from: proxy, to: narrow = 200",
			"/fourheader foo: d, bar: d, from: proxy, to: narrow = 429",
		},
		"quota": {"2 /quota = 200", "/quota = 429"},
		// Not 3, as with the reference service: a request is looked at, and passes only if something is left.
		"token-quota": {"2 /tokenquota = 200 settled", "/tokenquota = 429"},
		"multiservice": {"1 /multiservice = 200 service_1 settled",
			"2 /multiservice = 200 service_2 settled", "/multiservice = 429"},
		"value-included-in-stats": {"2 /unspec unspec: seen = 200", "/unspec unspec: seen = 429"},
	} {
		t.Run(script, func(t *testing.T) {
			p, e := behindEnvoy(t, "--redis", redistest.Start(t).Addr)
			for _, step := range steps {
				play(t, p, e, step)
			}
			if script == "value-included-in-stats" {
				want := `ratelimit_service_rate_limit_over_limit{domain="rl",key1="unspec_seen",key2=""} 1`
				if _, body := get(t, p.metrics+"/metrics"); !strings.Contains(body, want) {
					t.Errorf("the metrics lack %s", want)
				}
			}
		})
	}
}

// play sends the requests of a step: "2 /path field: value = 200 backend". A step with "settled" waits
// after each request until its end has been charged.
func play(t *testing.T, p *process, e *envoy, step string) {
	t.Helper()
	ask, want, _ := strings.Cut(step, " = ")
	times := 1
	if n, _ := fmt.Sscanf(ask, "%d ", &times); n == 1 {
		_, ask, _ = strings.Cut(ask, " ")
	}
	path, fields, _ := strings.Cut(ask, " ")
	want, settled := strings.CutSuffix(want, " settled")
	for range times {
		before := p.hits(t)
		reply := e.get(t, path, fields)
		got := strings.TrimSpace(fmt.Sprint(reply.StatusCode, " ", reply.Header.Get("X-Served-By")))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", step, got)
		}
		if settled {
			redistest.Eventually(t, "the end of the request is charged",
				func() bool { return p.hits(t) > before })
		}
	}
}

// hits returns the hits of all services with a quota.
func (p *process) hits(t *testing.T) (sum float64) {
	t.Helper()
	_, body := get(t, p.metrics+"/metrics")
	for line := range strings.Lines(body) {
		var hits float64
		rest, found := strings.CutPrefix(line,
			`ratelimit_service_rate_limit_total_hits{domain="rl",key1="service_service_`)
		if _, number, ok := strings.Cut(rest, "} "); found && ok {
			_, _ = fmt.Sscan(number, &hits)
			sum += hits
		}
	}
	return sum
}

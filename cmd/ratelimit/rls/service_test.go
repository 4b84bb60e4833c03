package rls

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// limits is the configuration of most specs: keys of every kind, with small limits.
const limits = `
domain: d
descriptors:
- {key: one, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: two, rate_limit: {unit: hour, requests_per_unit: 2}, metadata: {service: {name: two, tier: 1}}}
- {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
- {key: white}
- {key: shady, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: quota1, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}, metadata: {quota: one}}
- key: quota2
  quota_mode: true
  value_to_metric: true
  rate_limit: {unit: hour, requests_per_unit: 2}
  metadata: {quota: two, service: {tier: 2}}
- {key: tokens, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: banned, rate_limit: {unit: hour, requests_per_unit: 0, name: banned}}
- {key: pardon, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: banned}, {name: other}]}}
- {key: pass, rate_limit: {unlimited: true, replaces: [{name: banned}]}}
`

// decisions are requests, one after another, with their responses. Each retells cases of the reference
// service's ratelimit_test.go, or what differs from it: docs/envoy.md.
// They were compared with the decisions of the reference service at commit 3fb702589d36.
var decisions = []struct {
	name   string
	o      Options
	limits string // the configuration, if it is not limits
	steps  []string
}{
	{"each descriptor has its status", Options{}, "", []string{
		"one=a; two=a", "OK: OK 0, OK 1", "one=a; two=a", "OVER: OVER 0, OK 0", "one=a; two=b",
		"OVER: OVER 0, OK 1",
	}},
	{"values have limits of their own", Options{}, "", []string{
		"one=a", "OK: OK 0", "one=b", "OK: OK 0", "one=a", "OVER: OVER 0",
	}},
	{"without a limit all pass", Options{}, "", []string{
		"unknown=a", "OK: OK", "white=a", "OK: OK", "one=a two=a", "OK: OK",
	}},
	{"unlimited", Options{}, "", []string{"free=a; one=a", "OK: OK 4294967295, OK 0"}},
	{"a rate of 0 refuses", Options{}, "", []string{"none=a", "OVER: OVER 0", "none=a*0", "OVER: OVER 0",
		"none=a*-1", "OK: OK 0"}},
	{"shadow_mode passes", Options{}, "", []string{
		"shady=a", "OK: OK 0", "shady=a", "OK: OK 0", "one=a; shady=a", "OK: OK 0, OK 0",
		"one=a; shady=a", "OVER: OVER 0, OK 0",
	}},
	{"SHADOW_MODE passes, and shows the statuses", Options{Shadow: true}, "", []string{
		"one=a", "OK: OK 0", "one=a", "OK: OVER 0",
	}},
	{"quotas refuse together", Options{}, "", []string{
		"quota1=a; quota2=a", "OK: OK 0, OK 1", "quota1=a; quota2=a", "OK: OVER 0, OK 0",
		"quota1=a; quota2=a", "OVER: OVER 0, OVER 0", "quota1=a; quota2=a; two=a",
		"OVER: OVER 0, OVER 0, OK 1",
		"quota1=b; one=a", "OK: OK 0, OK 0", "quota1=b; quota2=b; one=a", "OVER: OVER 0, OK 1, OVER 0",
	}},
	{"QUOTA_MODE", Options{Quota: true}, "", []string{
		"one=a; two=a", "OK: OK 0, OK 1", "one=a; two=a", "OK: OVER 0, OK 0", "one=a; two=a",
		"OVER: OVER 0, OVER 0",
	}},
	{"SHADOW_MODE over quotas", Options{Quota: true, Shadow: true}, "", []string{
		"one=a", "OK: OK 0", "one=a", "OK: OVER 0",
	}},
	{"replaced limits do not count", Options{}, "", []string{
		"banned=a", "OVER: OVER 0", "banned=a; pardon=a", "OK: OK, OK 0", "banned=a; pardon=a",
		"OVER: OK, OVER 0",
		"banned=a; pass=a", "OK: OK, OK 4294967295", "banned=a", "OVER: OVER 0",
	}},
	{"hits of a request are for all descriptors without any", Options{}, "", []string{
		"4 tokens=a; two=a*1", "OK: OK 6, OK 1", "4 tokens=a; two=a*1", "OK: OK 2, OK 0",
		"4 tokens=a; two=a*1", "OVER: OVER 2, OVER 0",
	}},
	{"an override decides in place of the file", Options{}, "", []string{
		"unknown=a@2; one=a@2", "OK: OK 1, OK 1", "unknown=a@2; one=a@2", "OK: OK 0, OK 0",
		"unknown=a@2; one=a@2", "OVER: OVER 0, OVER 0",
	}},
	{"a shared pattern has one counter", Options{}, withShares, []string{
		"file=test2", "OK: OK 99", "file=test3", "OK: OK 98",
	}},
	{"values of other patterns have counters of their own", Options{}, withPatterns, []string{
		"wild=foo1", "OK: OK 19", "wild=foo2", "OK: OK 19",
	}},
	{"all_or_none: a request that one limit refuses takes nothing of others", Options{}, together, []string{
		"one=a; two=a", "OK: OK 0, OK 1", "one=a; two=a", "OVER: OVER 0, OK 1", "two=a", "OK: OK 0",
		"two=b; two=b", "OK: OK 0, OK 0", // the same limiter twice
		"one=c; one=c; two=c", "OVER: OVER 1, OVER 1, OK 2", // more than the limit ever has
		"one=d; shady=d", "OK: OK 0, OK 0", "two=e; shady=d", "OK: OK 1, OK 0", "two=e*0", "OK: OK 1",
		"none=f; two=f", "OVER: OVER 0, OK 2", // refused by another one
		"one=a*0; two=f", "OVER: OVER 0, OK 2",
		"quota=f", "OK: OK 0", "quota=f; quota=g; two=f", "OK: OVER 0, OK 0, OK 1",
		"large=a*1099511627776; large=b*1099511627776", "OVER: OVER 9, OVER 9",
	}},
}

// together is a configuration whose limits take their hits together.
const together = `
domain: d
all_or_none: true
descriptors:
- {key: one, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: two, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: shady, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: large, name: large, rate_limit: {unit: hour, requests_per_unit: 9, charge: false}}
`

// A redis-server decides as the embedded one does.
func TestDecisions(t *testing.T) {
	server := redistest.Start(t).Client(t)
	for i, c := range decisions {
		t.Run(c.name, func(t *testing.T) {
			asks(t, inMemory(t, c.o, cmp.Or(c.limits, limits)), c.steps...)
			c.o.Prefix = fmt.Sprintf("%d:", i)
			asks(t, serve(t, server, c.o, cmp.Or(c.limits, limits)), c.steps...)
		})
	}
}

// On a cluster, limits of one request may live on different servers, and those of a domain with
// all_or_none on one.
func TestDecisionsOnACluster(t *testing.T) {
	rdb := redistest.StartCluster(t).Client(t)
	asks(t, serve(t, rdb, Options{}, limits), decisions[0].steps...)
	asks(t, serve(t, rdb, Options{Prefix: "b"}, together), decisions[len(decisions)-1].steps...)
	for _, algorithm := range algorithms {
		s := serve(t, rdb, Options{Prefix: algorithm}, hourly(1, ", algorithm: "+algorithm))
		asks(t, s, "a={x}", "OK: OK 0", "a={x}", "OVER: OVER 0")
	}
}

// Decisions as time passes, of a limit in 10 s.
func TestDecisionsInTime(t *testing.T) {
	for _, c := range []struct {
		limit string
		steps []string
	}{
		// In any interval there are no more hits than the limit. A fixed window would grant twice that around
		// its end. The one that comes back is the first.
		{"requests_per_unit: 2", []string{
			"a=x", "OK: OK 1", "+9s", "a=x", "OK: OK 0", "+1100ms", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0",
		}},
		// Negative hits give back what their counter took last for a descriptor with hits, not the hits of
		// another descriptor: those of a second ago stay out.
		{"requests_per_unit: 10", []string{
			"a=x*5", "OK: OK 5", "+9s", "a=x", "OK: OK 4", "a=x", "OK: OK 3", "a=x*-5", "OK: OK 8",
			"+1100ms", "a=x*0", "OK: OK 8",
		}},
		// Looks do not keep the permits of a dead caller alive, whose lease must end.
		{"requests_per_unit: 2, algorithm: concurrency", []string{
			"a=x", "OK: OK 1", "+5s", "a=x*0", "OK: OK 1", "+4s", "a=x*0", "OK: OK 1",
			"+1100ms", "a=x*0", "OK: OK 2",
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			asks(t, inMemory(t, Options{}, limited("interval: 10s, "+c.limit)), c.steps...)
		})
	}
}

// A flood of requests that are refused asks Redis once a millisecond.
func TestRefusalsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		trips := redistest.RoundTrips(rdb)
		s := serve(t, rdb, Options{}, hourly(1, ""))
		asks(t, s, "a=x", "OK: OK 0", "a=x", "OVER: OVER 0")
		synctest.Wait() // the second use of a key counts its Clients
		before := trips.Load()
		for range 100 {
			asks(t, s, "a=x", "OVER: OVER 0")
		}
		if n := trips.Load() - before; n > 2 {
			t.Errorf("100 refusals took %d round trips", n)
		}
	})
}

// With leases most decisions of a busy limit do not ask Redis. A look counts what is leased as taken.
func TestLeasesSaveRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		trips := redistest.RoundTrips(rdb)
		s := serve(t, rdb, Options{Lease: time.Second}, hourly(1000, ""))
		const hits = 500
		for range hits {
			redistest.Must(s.ShouldRateLimit(t.Context(), request("d", "a=x")))(t)
			time.Sleep(5 * time.Millisecond)
		}
		if n := trips.Load(); n > hits/5 {
			t.Errorf("%d decisions took %d round trips", hits, n)
		}
		out := redistest.Must(s.ShouldRateLimit(t.Context(), request("d", "a=x*0")))(t)
		if left := out.GetStatuses()[0].GetLimitRemaining(); left >= hits {
			t.Errorf("a look finds %d of 1000 left", left)
		}
	})
}

// A limiter with a name is the same for all values, and for all clients that use the name. A rate that is
// set stays.
func TestANameIsALimiterOfAllClients(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	client := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = client.Close() })
	orders := client.RateLimiter("orders")
	redistest.Must(orders.TrySetRate(t.Context(), rratelimiter.Overall, 3, time.Hour))(t)
	s := serve(t, rdb, Options{}, single("name: orders, rate_limit: {unit: minute, requests_per_unit: 100}"))
	asks(t, s, "a=x", "OK: OK 2", "a=y", "OK: OK 1")
	if ok, err := orders.TryAcquire(t.Context(), 1, 0); !ok || err != nil {
		t.Errorf("the last permit: %v, %v", ok, err)
	}
	asks(t, s, "a=z", "OVER: OVER 0")
	out := redistest.Must(s.ShouldRateLimit(t.Context(), request("d", "a=z")))(t)
	if got := out.GetStatuses()[0].GetCurrentLimit(); got.GetRequestsPerUnit() != 3 ||
		got.GetUnit() != pb.RateLimitResponse_RateLimit_HOUR {
		t.Errorf("the limit is shown as %v, want 3 an hour", got)
	}
}

// A request without a domain or a descriptor is wrong, and one before the first configuration is too early.
func TestWrongRequestsGetErrors(t *testing.T) {
	s := inMemory(t, Options{}, limits)
	early := redistest.Must(New(redistest.MiniClient(t, redistest.Mini(t)), Options{}))(t)
	t.Cleanup(func() { _ = early.Close() })
	badUnit := request("d", "one=a@2")
	badUnit.Descriptors[0].Limit.Unit = typev3.RateLimitUnit_UNKNOWN
	for want, call := range map[string]struct {
		s  *Service
		in *pb.RateLimitRequest
	}{
		"domain is empty":              {s, request("", "one=a")},
		"number of descriptors is 0":   {s, &pb.RateLimitRequest{Domain: "d"}},
		"number of descriptors is 101": {s, request("d", strings.Repeat(";", 100))},
		"has the unit 0, must have":    {s, badUnit},
		"no configuration is loaded":   {early, request("d", "one=a")},
	} {
		out, err := call.s.ShouldRateLimit(t.Context(), call.in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want an error with %q", out, err, want)
		}
	}
}

// With a time zone, days and longer are those of the calendar, unless a limit has another algorithm, a name,
// or decides together with others. It is Saturday 2000-01-01 01:00 in Berlin.
func TestDaysOfTheCalendar(t *testing.T) {
	berlin := Options{Calendar: redistest.Must(time.LoadLocation("Europe/Berlin"))(t)}
	limit := func(keys string) string { return limited("requests_per_unit: 2, " + keys) }
	for file, resets := range map[string]time.Duration{
		limit("unit: day"): 23 * time.Hour, limit("unit: week, algorithm: fixed_window"): 47 * time.Hour,
		limit("unit: month"): 743 * time.Hour, limit("unit: year"): 8783 * time.Hour,
		limit("unit: hour"): time.Hour, limit("interval: 24h"): 24 * time.Hour,
		limit("unit: day, algorithm: rratelimiter"):                      24 * time.Hour,
		single("name: n, rate_limit: {unit: day, requests_per_unit: 2}"): 24 * time.Hour,
		"all_or_none: true\n" + limit("unit: month"):                     720 * time.Hour,
		"all_or_none: true\n" + limit("unit: year"):                      8760 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			asks(t, inMemory(t, berlin, file), "2 a=x", "OK: OK 0", "+"+(resets-time.Second).String(),
				"a=x", "OVER: OVER 0", "+2s", "2 a=x", "OK: OK 0")
		})
	}
}

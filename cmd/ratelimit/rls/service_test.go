package rls

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
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
  rate_limit: {unit: hour, requests_per_unit: 2}
  metadata: {quota: two, service: {tier: 2}}
- {key: tokens, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: ask, rate_limit: {unit: hour, requests_per_unit: 10, charge: false}}
- {key: banned, rate_limit: {unit: hour, requests_per_unit: 0, name: banned}}
- {key: pardon, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: banned}, {name: other}]}}
- {key: pass, rate_limit: {unlimited: true, replaces: [{name: banned}]}}
`

// decisions are requests, one after another, with their responses. Each retells cases of the reference
// service's ratelimit_test.go, or what differs from it: docs/envoy.md.
var decisions = []struct {
	name  string
	o     Options
	steps []string
}{
	{"each descriptor has its status", Options{}, []string{
		"one=a; two=a", "OK: OK 0, OK 1", "one=a; two=a", "OVER: OVER 0, OK 0", "one=a; two=b",
		"OVER: OVER 0, OK 1",
	}},
	{"values have limits of their own", Options{}, []string{
		"one=a", "OK: OK 0", "one=b", "OK: OK 0", "one=a", "OVER: OVER 0",
	}},
	{"without a limit all pass", Options{}, []string{
		"unknown=a", "OK: OK", "white=a", "OK: OK", "one=a two=a", "OK: OK",
	}},
	{"unlimited", Options{}, []string{"free=a; one=a", "OK: OK 4294967295, OK 0"}},
	{"a rate of 0 refuses", Options{}, []string{"none=a", "OVER: OVER 0", "none=a*0", "OVER: OVER 0"}},
	{"shadow_mode passes", Options{}, []string{
		"shady=a", "OK: OK 0", "shady=a", "OK: OK 0", "one=a; shady=a", "OK: OK 0, OK 0",
		"one=a; shady=a", "OVER: OVER 0, OK 0",
	}},
	{"SHADOW_MODE passes, and shows the statuses", Options{Shadow: true}, []string{
		"one=a", "OK: OK 0", "one=a", "OK: OVER 0",
	}},
	{"quotas refuse together", Options{}, []string{
		"quota1=a; quota2=a", "OK: OK 0, OK 1", "quota1=a; quota2=a", "OK: OVER 0, OK 0",
		"quota1=a; quota2=a", "OVER: OVER 0, OVER 0", "quota1=a; quota2=a; two=a",
		"OVER: OVER 0, OVER 0, OK 1",
		"quota1=b; one=a", "OK: OK 0, OK 0", "quota1=b; quota2=b; one=a", "OVER: OVER 0, OK 1, OVER 0",
	}},
	{"QUOTA_MODE", Options{Quota: true}, []string{
		"one=a; two=a", "OK: OK 0, OK 1", "one=a; two=a", "OK: OVER 0, OK 0", "one=a; two=a",
		"OVER: OVER 0, OVER 0",
	}},
	{"SHADOW_MODE over quotas", Options{Quota: true, Shadow: true}, []string{
		"one=a", "OK: OK 0", "one=a", "OK: OVER 0",
	}},
	{"replaced limits do not count", Options{}, []string{
		"banned=a", "OVER: OVER 0", "banned=a; pardon=a", "OK: OK, OK 0", "banned=a; pardon=a",
		"OVER: OK, OVER 0",
		"banned=a; pass=a", "OK: OK, OK 4294967295", "banned=a", "OVER: OVER 0",
	}},
	{"0 hits only look", Options{}, []string{
		"one=a*0", "OK: OK 1", "one=a*0", "OK: OK 1", "one=a", "OK: OK 0", "one=a*0", "OVER: OVER 0",
	}},
	{"hits of a descriptor are charged, also beyond the limit", Options{}, []string{
		"tokens=a*4", "OK: OK 6", "tokens=a*0", "OK: OK 6", "tokens=a*9", "OVER: OVER 0", "tokens=a*0",
		"OVER: OVER 0",
		"tokens=a*50", "OVER: OVER 0",
	}},
	{"with charge: false, refused hits take nothing", Options{}, []string{
		"ask=a*6", "OK: OK 4", "ask=a*6", "OVER: OVER 4", "ask=a*4", "OK: OK 0", "ask=b*11", "OVER: OVER 10",
	}},
	{"negative hits come back", Options{}, []string{
		"tokens=a*9", "OK: OK 1", "tokens=a*-5", "OK: OK 6", "tokens=a*-50", "OK: OK 10", "one=a*-1",
		"OK: OK 1",
		"none=a*-1", "OK: OK 0",
	}},
}

func TestDecisions(t *testing.T) {
	for _, c := range decisions {
		t.Run(c.name, func(t *testing.T) {
			asks(t, inMemory(t, c.o, limits), c.steps...)
		})
	}
}

// A redis-server decides as the embedded one does.
func TestDecisionsOnARealRedis(t *testing.T) {
	server := redistest.Start(t)
	for i, c := range decisions {
		rdb := server.Client(t)
		c.o.Prefix = fmt.Sprintf("%d:", i)
		asks(t, serve(t, rdb, c.o, limits), c.steps...)
	}
}

// In any interval there are no more hits than the limit. A fixed window would grant twice that around its
// end.
func TestTheDefaultIsTheExactWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, Options{}, "domain: d\ndescriptors: [{key: a, rate_limit: {interval: 10s, "+
			"requests_per_unit: 2}}]")
		asks(t, s, "a=x", "OK: OK 1")
		time.Sleep(9 * time.Second)
		asks(t, s, "a=x", "OK: OK 0")
		time.Sleep(1100 * time.Millisecond)
		asks(t, s, "a=x", "OK: OK 0", "a=x", "OVER: OVER 0") // only the first one has come back
		out, err := s.ShouldRateLimit(t.Context(), request("d", "a=x"))
		if err != nil || out.GetStatuses()[0].GetDurationUntilReset().AsDuration() != 9*time.Second {
			t.Errorf("%v, %v; want the next hit after 8.9 s, rounded up", out, err)
		}
	})
}

// A flood of requests that are refused asks Redis once a millisecond, and ends with what another replica
// gives back.
func TestRefusalsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		trips := redistest.RoundTrips(rdb)
		const text = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]"
		s, replica := serve(t, rdb, Options{}, text), serve(t, redistest.MiniClient(t, m), Options{}, text)
		asks(t, replica, "a=x*1", "OK: OK 0")
		asks(t, s, "a=x", "OVER: OVER 0", "a=x", "OVER: OVER 0")
		synctest.Wait() // the second use of a key counts its Clients
		before := trips.Load()
		for range 100 {
			asks(t, s, "a=x", "OVER: OVER 0")
		}
		if n := trips.Load() - before; n > 2 {
			t.Errorf("100 refusals took %d round trips", n)
		}
		asks(t, replica, "a=x*-1", "OK: OK 1")
		time.Sleep(2 * time.Millisecond)
		asks(t, s, "a=x", "OK: OK 0")
	})
}

// Each algorithm grants its limit and refuses the rest, looks, charges and takes back.
func TestAlgorithms(t *testing.T) {
	for algorithm, want := range map[string]string{
		exact: "OVER: OVER 0", fixedWindow: "OVER: OVER 0", slidingWindow: "OVER: OVER 0",
		gcra:        "OVER: OVER 0",
		tokenBucket: "OVER: OVER 0", concurrent: "OVER: OVER 0",
	} {
		for _, name := range []string{"", "name: shared, "} {
			t.Run(algorithm+" "+name, func(t *testing.T) {
				s := inMemory(t, Options{}, "domain: d\ndescriptors: [{key: a, "+name+"rate_limit: "+
					"{unit: hour, "+
					"requests_per_unit: 3, algorithm: "+algorithm+"}}]")
				asks(t, s, "a=x*0", "OK: OK 3", "a=x", "OK: OK 2", "a=x", "OK: OK 1", "a=x*0", "OK: OK 1",
					"a=x", "OK: OK 0", "a=x", want, "a=x*0", want, "a=x*-1", "OK: OK 1", "a=x", "OK: OK 0",
					"a=x*-9", "OK: OK 3", "a=x*3", "OK: OK 0")
				if algorithm != concurrent {
					asks(t, s, "a=x*2", want, "a=x*-1", "OK: OK 0", "a=x*0", want, "a=x*-2", "OK: OK 1")
				}
			})
		}
	}
}

// Looks do not keep the permits of a dead caller alive, whose lease must end.
func TestLooksDoNotExtendALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, Options{}, "domain: d\ndescriptors: [{key: a, rate_limit: {interval: 10s, "+
			"requests_per_unit: 2, algorithm: concurrency}}]")
		asks(t, s, "a=x", "OK: OK 1")
		for range 9 {
			time.Sleep(time.Second)
			asks(t, s, "a=x*0", "OK: OK 1")
		}
		time.Sleep(1100 * time.Millisecond)
		asks(t, s, "a=x*0", "OK: OK 2")
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
	s := serve(t, rdb, Options{}, "domain: d\ndescriptors: [{key: a, name: orders, rate_limit: {unit: "+
		"minute, "+
		"requests_per_unit: 100}}]")
	asks(t, s, "a=x", "OK: OK 2", "a=y", "OK: OK 1")
	if ok, err := orders.TryAcquire(t.Context(), 1, 0); !ok || err != nil {
		t.Errorf("the last permit: %v, %v", ok, err)
	}
	out, err := s.ShouldRateLimit(t.Context(), request("d", "a=z"))
	if err != nil || shown(out) != "OVER: OVER 0" {
		t.Errorf("%v, %v", out, err)
	}
	if got := out.GetStatuses()[0].GetCurrentLimit(); got.GetRequestsPerUnit() != 3 ||
		got.GetUnit() != pb.RateLimitResponse_RateLimit_HOUR {
		t.Errorf("the limit is shown as %v, want 3 an hour", got)
	}
}

// With all_or_none, a request that one limit refuses takes nothing from the others.
func TestAllOrNone(t *testing.T) {
	const text = `
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
	s := inMemory(t, Options{}, text)
	asks(t, s, "one=a; two=a", "OK: OK 0, OK 1", "one=a; two=a", "OVER: OVER 0, OK 1", "two=a", "OK: OK 0",
		"two=b; two=b", "OK: OK 0, OK 0", // the same limiter twice
		"one=c; one=c; two=c", "OVER: OVER 1, OVER 1, OK 2", // more than the limit ever has
		"one=d; shady=d", "OK: OK 0, OK 0", "two=e; shady=d", "OK: OK 1, OK 0",
		"two=e*0", "OK: OK 1",
		"none=f; two=f", "OVER: OVER 0, OK 2", // refused by another one
		"one=a*0; two=f", "OVER: OVER 0, OK 2",
		"quota=f", "OK: OK 0", "quota=f; quota=g; two=f", "OK: OVER 0, OK 0, OK 1",
		"large=a*1099511627776; large=b*1099511627776", "OVER: OVER 9, OVER 9")
}

// The hits of a request count for all its descriptors that have none of their own.
func TestHitsOfARequest(t *testing.T) {
	s := inMemory(t, Options{}, limits)
	in := request("d", "tokens=a; two=a*1")
	in.HitsAddend = 4
	for _, want := range []string{"OK: OK 6, OK 1", "OK: OK 2, OK 0", "OVER: OVER 2, OVER 0"} {
		if out, err := s.ShouldRateLimit(t.Context(), in); err != nil || shown(out) != want {
			t.Errorf("%v, %v; want %s", shown(out), err, want)
		}
	}
}

// An override of Envoy decides in place of the file.
func TestAnOverrideDecides(t *testing.T) {
	s := inMemory(t, Options{}, limits)
	in := request("d", "unknown=a; one=a")
	for _, d := range in.Descriptors {
		d.Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: 2, Unit: typev3.RateLimitUnit_DAY,
		}
	}
	for _, want := range []string{"OK: OK 1, OK 1", "OK: OK 0, OK 0", "OVER: OVER 0, OVER 0"} {
		if out, err := s.ShouldRateLimit(t.Context(), in); err != nil || shown(out) != want {
			t.Errorf("%v, %v; want %s", shown(out), err, want)
		}
	}
	in.Domain = "other"
	if out, err := s.ShouldRateLimit(t.Context(), in); err != nil || shown(out) != "OK: OK, OK" {
		t.Errorf("an unknown domain: %v, %v", shown(out), err)
	}
}

// A request without a domain or a descriptor is wrong, and one before the first configuration is too early.
func TestWrongRequestsGetErrors(t *testing.T) {
	s := inMemory(t, Options{}, limits)
	early := redistest.Must(New(redistest.MiniClient(t, redistest.Mini(t)), Options{}))(t)
	t.Cleanup(func() { _ = early.Close() })
	many := &pb.RateLimitRequest{Domain: "d", Descriptors: make([]*descriptor.RateLimitDescriptor, 101)}
	for want, call := range map[string]struct {
		s  *Service
		in *pb.RateLimitRequest
	}{
		"domain is empty":              {s, request("", "one=a")},
		"number of descriptors is 0":   {s, &pb.RateLimitRequest{Domain: "d"}},
		"number of descriptors is 101": {s, many},
		"no configuration is loaded":   {early, request("d", "one=a")},
	} {
		out, err := call.s.ShouldRateLimit(t.Context(), call.in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want an error with %q", out, err, want)
		}
	}
}

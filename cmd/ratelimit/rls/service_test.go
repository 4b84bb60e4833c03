package rls

import (
	_ "embed" // testdata
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/decisions.txt
var decisions string

// played returns what a row of testdata/decisions.txt needs, and its requests with their responses.
func played(row string) (o Options, config string, steps []string) {
	config = limits
	for step := range strings.SplitSeq(row, "|") {
		request, response, is := strings.Cut(step, " => ")
		if is {
			steps = append(steps, strings.TrimSpace(request), strings.TrimSpace(response))
			continue
		}
		for word := range strings.FieldsSeq(step) {
			switch word {
			case "SHADOW_MODE":
				o.Shadow = true
			case "QUOTA_MODE":
				o.Quota = true
			default:
				config = configs[word]
			}
		}
	}
	return o, config, steps
}

// A redis-server decides as the embedded one does.
func TestDecisions(t *testing.T) {
	server := redistest.Start(t).Client(t)
	for name, row := range fixtures.Rows(decisions) {
		t.Run(name, func(t *testing.T) {
			o, config, steps := played(row)
			asks(t, inMemory(t, o, config), steps...)
			o.Prefix = name + ":"
			asks(t, serve(t, server, o, config), steps...)
		})
	}
}

// On a cluster, limits of one request may live on different servers, and those of a domain with
// all_or_none on one.
func TestDecisionsOnACluster(t *testing.T) {
	rdb := redistest.StartCluster(t).Client(t)
	for _, name := range []string{"each descriptor has its status",
		"all_or_none: a request that one limit refuses takes nothing of others"} {
		o, config, steps := played(fixtures.Rows(decisions)[name])
		o.Prefix = name + ":"
		asks(t, serve(t, rdb, o, config), steps...)
	}
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

package rls

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A Service remembers a bounded number of reservations, the newest ones.
func TestLoansAreBounded(t *testing.T) {
	var l lent
	for i := range mostLent + 5 {
		l.add(fmt.Sprint(i%7), int64(i), nil)
	}
	if len(l.all) != mostLent {
		t.Errorf("%d loans are remembered", len(l.all))
	}
	if newest := l.take("5", 0); newest == nil || newest.n != 10_001 {
		t.Errorf("the newest of 5 is %+v", newest)
	}
	if none := l.take("5", 1<<40); none != nil {
		t.Errorf("%+v has too few permits", none)
	}
	for _, key := range slices.Collect(maps.Keys(l.byKey)) {
		for l.take(key, 0) != nil {
		}
	}
	if len(l.byKey) != 0 {
		t.Errorf("%d keys stay", len(l.byKey))
	}
}

// headers returns the headers of a response as lines.
func headers(t *testing.T, s *Service, text string) string {
	t.Helper()
	out := redistest.Must(s.ShouldRateLimit(t.Context(), request("d", text)))(t)
	var lines []string
	for _, h := range out.GetResponseHeadersToAdd() {
		lines = append(lines, h.GetKey()+": "+h.GetValue())
	}
	return strings.Join(lines, "\n")
}

// The headers are those of the limit that binds, and the fields of draft 11 have all limits.
func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, Options{Headers: true, LimitHeader: "X-Limit"}, limits)
		want := "X-Limit: 2\nRateLimit-Remaining: 1\nRateLimit-Reset: 3600\n" +
			"RateLimit-Policy: \"limit-1\";q=10;w=3600, \"limit-2\";q=2;w=3600\n" +
			"RateLimit: \"limit-1\";r=9;t=3600, \"limit-2\";r=1;t=3600"
		if got := headers(t, s, "tokens=a; two=a"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		time.Sleep(time.Minute)
		want = "X-Limit: 1\nRateLimit-Remaining: 0\nRateLimit-Reset: 3540\n" +
			"RateLimit-Policy: \"default\";q=1;w=3600\nRateLimit: \"default\";r=0;t=3540\nRetry-After: 3540"
		_ = headers(t, s, "one=a")
		time.Sleep(time.Minute + time.Millisecond) // 3539.999 s are rounded up: Envoy truncates
		if got := headers(t, s, "one=a"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if got := headers(t, s, "unknown=a; free=a"); got != "" {
			t.Errorf("without a limit:\n%s", got)
		}
		if got := headers(t, inMemory(t, Options{}, limits), "one=a"); got != "" {
			t.Errorf("headers are off, and there are\n%s", got)
		}
	})
}

// Dynamic metadata are the request and the metadata of the limits that passed; the first one has a field.
func TestMetadata(t *testing.T) {
	s := inMemory(t, Options{Metadata: true}, limits)
	const asked = `{"domain":"d","descriptors":[{"entries":["two=a"]},{"entries":["quota1=a"]},` +
		`{"entries":["quota2=a"],"hitsAddend":1}]`
	for _, want := range []string{
		asked + `,"metadata":{"quota":"one","service":{"name":"two","tier":1}}}`,
		asked + `,"metadata":{"quota":"two","service":{"name":"two","tier":1}}}`,
		asked + `}`,
	} {
		out := redistest.Must(s.ShouldRateLimit(t.Context(), request("d", "two=a; quota1=a; quota2=a*1")))(t)
		wanted := new(structpb.Struct)
		redistest.NoError(t, protojson.Unmarshal([]byte(want), wanted))
		if got := out.GetDynamicMetadata(); !proto.Equal(got, wanted) {
			t.Errorf("got\n%v\nwant\n%v", got, wanted)
		}
	}
}

// The metrics are those of the reference service.
func TestMetrics(t *testing.T) {
	s := inMemory(t, Options{},
		limits+"- {key: seen, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	asks(t, s, "two=a", "OK: OK 1", "two=a", "OK: OK 0", "two=a", "OVER: OVER 0", "shady=a*3", "OK: OK 0",
		"seen=10.0.0.1", "OK: OK 0", "free=a", "OK: OK 4294967295", "none=a", "OVER: OVER 0")
	redistest.Must(s.ShouldRateLimit(t.Context(), request("other", "a=b")))(t)
	if _, err := s.ShouldRateLimit(t.Context(), request("", "a=b")); err == nil {
		t.Fatal("no error")
	}
	for m, want := range map[*metrics]string{
		s.meters.of("d", "d.two"):           "3 1 1 2 0",
		s.meters.of("d", "d.shady"):         "3 3 0 0 3",
		s.meters.of("d", "d.seen_10.0.0.1"): "1 0 1 1 0",
		s.meters.of("d", "d.free"):          "1 0 0 1 0",
		s.meters.of("d", "d.none"):          "1 1 0 0 0",
	} {
		got := fmt.Sprint(testutil.ToFloat64(m.hits), testutil.ToFloat64(m.over), testutil.ToFloat64(m.near),
			testutil.ToFloat64(m.within), testutil.ToFloat64(m.shadow))
		if got != want {
			t.Errorf("total_hits, over, near, within and shadow are %s, want %s", got, want)
		}
	}
	for name, c := range map[string]struct {
		counter prometheus.Counter
		want    float64
	}{
		"domain_not_found":        {s.meters.unknownDomains, 1},
		"should_rate_limit_error": {s.meters.errors.WithLabelValues("service_error"), 1},
		"total_requests":          {s.meters.requests, 9},
	} {
		if got := testutil.ToFloat64(c.counter); got != c.want {
			t.Errorf("%s is %v, want %v", name, got, c.want)
		}
	}
}

// Values that visitors choose cannot fill the memory with metrics, and one of a megabyte takes no megabyte.
// Domains and keys with dots have metrics of their own, though their paths are the same.
func TestMetricsAreBounded(t *testing.T) {
	s := inMemory(t, Options{},
		single("detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}"))
	m, long := s.meters, strings.Repeat("ä", 1<<19)
	asks(t, s, "a="+long, "OK: OK 0", "a="+long+"x", "OK: OK 0", "a=b", "OK: OK 0")
	var out strings.Builder
	for _, family := range redistest.Must(s.Metrics().Gather())(t) {
		out.WriteString(family.String())
	}
	if n := testutil.CollectAndCount(m.hits); n != 2 || out.Len() > 20_000 {
		t.Errorf("%d series, %d bytes of metrics", n, out.Len())
	}
	m.of("a", "a.b.c").hits.Inc()
	m.of("a.b", "a.b.c").hits.Add(2)
	if got := testutil.ToFloat64(m.of("a", "a.b.c").hits); got != 1 {
		t.Errorf("domain a has %v hits", got)
	}
	const there = 4
	for i := range mostPaths - there + 10 {
		m.of("d", fmt.Sprintf("d.key_%d", i)).hits.Inc()
	}
	if n := testutil.CollectAndCount(m.hits); n != mostPaths+1 {
		t.Errorf("there are %d series", n)
	}
	if got := testutil.ToFloat64(m.of("d", "d.key_new").hits); got != 10 {
		t.Errorf("the common series has %v hits", got)
	}
}

// /check and /json decide as gRPC does.
func TestHTTP(t *testing.T) {
	s := inMemory(t, Options{}, limits)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	hashOfUser := redistest.Must(httplimit.ByHeader("X-User")(
		&http.Request{Header: http.Header{"X-User": {"a&x=b,c"}}}))(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string // of the body or the headers
	}{
		{"GET", "/check/d?one=a%20b", "", 200, `Ratelimit: "default";r=0;t=3600`},
		{"GET", "/check/d?one=a+b", "", 429, "Retry-After: 3600"},
		{"GET", "/check/d?one=a&two=b", "", 200, ""},
		{"GET", "/check/d?header:one=x-user", "", 200, `r=0;t=3600`},
		{"GET", "/check/d?one=" + hashOfUser, "", 429, ""},
		{"GET", "/check/d?plain:one=X-User", "", 200, `r=0;t=3600`},
		{"GET", "/check/d?one=a%26x=b,c", "", 429, ""}, // the two values of X-User
		{"GET", "/check/d?plain:one=host", "", 200, `r=0;t=3600`},
		{"GET", "/check/d?one=example.com", "", 429, ""},
		{"GET", "/check/d?header:one=X-None", "", 200, `r=0;t=3600`},
		{"GET", "/check/d?plain:one=X-None", "", 429, ""},
		{"GET", "/check/d?one=", "", 429, ""},
		{"GET", "/check/d?plain:one=", "", 400, "plain:one is empty, must be the name"},
		{"GET", "/check/d?header:one=", "", 400, "header:one is empty, must be the name"},
		{"GET", "/check/d?header:=X-User", "", 400, "a key of the query is empty"},
		{"GET", "/check/other?one=a", "", 200, ""},
		{"GET", "/check/d?banned=a", "", 429, `Ratelimit: "banned";r=0;t=3600` + "\r\n" +
			`Ratelimit-Policy: "banned";q=0;w=3600` + "\r\nRetry-After: 3600"},
		{"POST", "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"none","value":"j"}]}]}`, 429,
			`"durationUntilReset":"3600s"`},
		{"GET", "/check/d", "", 400, "the query is empty, must have a key"},
		{"GET", "/check/d?=a", "", 400, "a key of the query is empty"},
		{"GET", "/check/d?a=%zz", "", 400, "invalid URL escape"},
		{"POST", "/check/d?one=a", "", 405, ""},
		{"POST", "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"one","value":"j"}]}]}`, 200,
			`"overallCode":"OK"`},
		{"POST", "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"one","value":"j"}]}]}`, 429,
			`"OVER_LIMIT"`},
		{"POST", "/json", `{"domain":""}`, 400, "domain is empty"},
		{"POST", "/json", `{`, 400, "proto:"},
		{"POST", "/json", strings.Repeat(" ", maxBody+1), 413, "too large"},
	} {
		r := redistest.Must(http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path,
			strings.NewReader(c.body)))(t)
		r.Host = "example.com"
		r.Header["X-User"] = []string{"a&x=b", "c"}
		reply := redistest.Must(server.Client().Do(r))(t)
		body, _ := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		var head strings.Builder
		_ = reply.Header.Write(&head)
		if reply.StatusCode != c.status || !strings.Contains(strings.ReplaceAll(head.String()+string(body),
			"\": \"", "\":\""), c.want) {
			t.Errorf("%s %s: %d\n%s%s\nwant %d with %s", c.method, c.path, reply.StatusCode, &head, body,
				c.status, c.want)
		}
	}
}

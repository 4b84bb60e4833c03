package rls

import (
	_ "embed" // testdata
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The configurations of the reference service's tests, retold, and two of our own.
var (
	//go:embed testdata/basic.yaml
	basic string
	//go:embed testdata/patterns.yaml
	withPatterns string
	//go:embed testdata/shares.yaml
	withShares string
	//go:embed testdata/detailed.yaml
	detailed string
	//go:embed testdata/limits.yaml
	limits string
	//go:embed testdata/together.yaml
	together string

	configs = map[string]string{"basic": basic, "patterns": withPatterns, "shares": withShares,
		"detailed": detailed, "limits": limits, "together": together}
)

func TestMain(m *testing.M) {
	logging.Disable()
	redistest.VerifyNoLeaks(m)
}

// single returns a file whose only descriptor has a key a, and more keys.
func single(keys string) string { return "domain: d\ndescriptors: [{key: a, " + keys + "}]" }

// limited returns a file whose only limit, of the key a, has some keys.
func limited(keys string) string { return single("rate_limit: {" + keys + "}") }

// hourly is limited to a number an hour.
func hourly(n int, more string) string {
	return limited(fmt.Sprintf("unit: hour, requests_per_unit: %d%s", n, more))
}

// serve returns a Service on rdb with a configuration. Unless a spec is about the budget, a busy machine
// must not make the fallback decide.
func serve(t *testing.T, rdb redis.UniversalClient, o Options, text string) *Service {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = 4 * time.Second
	}
	s := redistest.Must(New(rdb, o))(t)
	t.Cleanup(func() { _ = s.Close() })
	redistest.NoError(t, s.Load([]File{{Name: "limits.yaml", Data: []byte(text)}}))
	return s
}

// inMemory returns a Service on an embedded Redis.
func inMemory(t *testing.T, o Options, text string) *Service {
	t.Helper()
	return serve(t, redistest.MiniClient(t, redistest.Mini(t)), o, text)
}

// request returns the request for a text such as "4 user=bob route=a; tokens=x*5; user=x*-1; user=y@2": the
// hits of the request, and descriptors with hits, or with a limit a day that overrides that of the file.
func request(domain, text string) *pb.RateLimitRequest {
	in := &pb.RateLimitRequest{Domain: domain}
	if n, _ := fmt.Sscan(text, &in.HitsAddend); n == 1 {
		_, text, _ = strings.Cut(text, " ")
	}
	for one := range strings.SplitSeq(text, ";") {
		one, rate, overrides := strings.Cut(one, "@")
		one, hits, explicit := strings.Cut(one, "*")
		d := &ratelimit.RateLimitDescriptor{}
		for pair := range strings.FieldsSeq(one) {
			key, value, _ := strings.Cut(pair, "=")
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		if explicit {
			hits, d.IsNegativeHits = strings.CutPrefix(hits, "-")
			n, _ := strconv.ParseUint(hits, 10, 64)
			d.HitsAddend = wrapperspb.UInt64(n)
		}
		if overrides {
			n, _ := strconv.ParseUint(rate, 10, 32)
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit_DAY,
			}
		}
		in.Descriptors = append(in.Descriptors, d)
	}
	return in
}

// ask returns the response to a request of domain d as a text such as "OVER: OK 4, OVER 0".
func ask(t *testing.T, s *Service, text string) string {
	t.Helper()
	out, err := s.ShouldRateLimit(t.Context(), request("d", text))
	if err != nil {
		return "error: " + status.Code(err).String()
	}
	name := func(code pb.RateLimitResponse_Code) string {
		return strings.TrimSuffix(code.String(), "_LIMIT")
	}
	var each []string
	for _, status := range out.GetStatuses() {
		text := name(status.GetCode())
		if status.GetCurrentLimit() != nil || status.GetLimitRemaining() > 0 {
			text += fmt.Sprintf(" %d", status.GetLimitRemaining())
		}
		each = append(each, text)
	}
	return name(out.GetOverallCode()) + ": " + strings.Join(each, ", ")
}

// asks sends requests one after another, and compares the responses, each of which follows its request. A
// step such as "+9s" lets time pass.
func asks(t *testing.T, s *Service, steps ...string) {
	t.Helper()
	for i := 0; i < len(steps); i += 2 {
		if wait, ok := strings.CutPrefix(steps[i], "+"); ok {
			time.Sleep(redistest.Must(time.ParseDuration(wait))(t))
			i--
		} else if got := ask(t, s, steps[i]); got != steps[i+1] {
			t.Errorf("%q, step %d, %s: %s, want %s", steps, i, steps[i], got, steps[i+1])
		}
	}
}

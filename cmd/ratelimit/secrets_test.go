package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// What visitors send, and the password of Redis, are on no page of any port and in no line of the log,
// whatever fails. The log says what has failed.
func TestNothingSecretIsShown(t *testing.T) {
	file, limits := t.TempDir()+"/a.yaml", "domain: example\ndescriptors:\n"
	var keys []string
	const all = "rratelimiter fixed_window gcra sliding_window token_bucket concurrency"
	for algorithm := range strings.FieldsSeq(all) {
		for _, fallback := range []string{"error", "local"} {
			key := algorithm + "-" + fallback
			keys = append(keys, key)
			limits += fmt.Sprintf("- {key: %s, fallback: %s, rate_limit: "+
				"{unit: day, requests_per_unit: 9, algorithm: %s}}\n", key, fallback, algorithm)
		}
	}
	writeFile(t, file, limits)
	p := start(t, "LOG_LEVEL=", "REDIS_SENTINEL_AUTH=secret2", "--redis",
		"redis://ann:secret1@"+freeAddress(t), "--config", file, "--budget", "15ms")
	conn := dial(t, p.grpc)
	var pages strings.Builder
	for range 5 { // until the circuit is open
		for _, key := range keys {
			code, body := get(t, p.web+"/check/example?"+key+"=secret3")
			pages.WriteString(body)
			_, err := ask(t.Context(), conn, key+"=secret4")
			pages.WriteString(status.Convert(err).Message())
			fails := strings.HasSuffix(key, "error")
			if fails != (code == 503) || fails != (status.Code(err) == codes.Unavailable) {
				t.Errorf("%s: %d, %v", key, code, err)
			}
		}
		for _, page := range []string{
			p.debug + "/state", p.debug + "/rlconfig", p.metrics + "/metrics", p.web + "/healthcheck",
		} {
			_, body := get(t, page)
			pages.WriteString(body)
		}
	}
	const first = "Redis does not reply yet, fallbacks decide" // a ping may take longer than all calls
	redistest.Eventually(t, first, func() bool { return strings.Contains(p.out.String(), first) })
	redistest.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.wait(t)
	if all := pages.String() + p.out.String(); strings.Contains(all, "secret") {
		t.Errorf("a secret is shown:\n%s", all)
	}
	for text, in := range map[string]string{
		"degraded: true": pages.String(), "cause: no answer from Redis within 15ms": pages.String(),
		"the rate limit could not be decided": pages.String(), "a limiter has failed": p.out.String(),
		"Redis has failed, fallbacks decide": p.out.String(),
		"connect: connection refused":        p.out.String(),
	} {
		if !strings.Contains(in, text) {
			t.Errorf("%s is not in\n%s", text, in)
		}
	}
}

// LOG_LEVEL=DEBUG logs the texts of errors, which have what visitors send.
func TestDebugLogsErrors(t *testing.T) {
	file := t.TempDir() + "/a.yaml"
	writeFile(t, file, "domain: example\nfallback: error\n"+
		"descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 9}}]")
	p := start(t, "LOG_LEVEL=DEBUG", "--redis", freeAddress(t), "--config", file, "--budget", "15ms")
	code, body := get(t, p.web+"/check/example?user=visitor")
	if code != 503 || strings.Contains(body, "visitor") {
		t.Fatalf("%d %s", code, body)
	}
	redistest.Eventually(t, "the log has the error",
		func() bool { return strings.Contains(p.out.String(), "visitor") })
}

// Values that the reference service takes are taken, and profiles are for this machine alone unless the
// settings say otherwise.
func TestSettings(t *testing.T) {
	debug := func(s *settings) string { return s.debug }
	level := func(s *settings) string { return levels[strings.ToUpper(s.LogLevel)].String() }
	rest := func(s *settings) string { return fmt.Sprint(s.connections, s.budget, s.lease) }
	for _, c := range []struct {
		variable, flag, want string
		got                  func(*settings) string
	}{
		{"", "", "127.0.0.1:6070", debug},
		{"DEBUG_HOST=", "", "127.0.0.1:6070", debug},
		{"DEBUG_HOST=0.0.0.0", "", "0.0.0.0:6070", debug},
		{"DEBUG_HOST=::1", "--debug=7", "[::1]:7", debug},
		{"DEBUG_PORT=7", "", "127.0.0.1:7", debug},
		{"DEBUG_PORT=7", "--debug=8", "127.0.0.1:8", debug},
		{"DEBUG_PORT=7", "--debug=:8", ":8", debug},
		{"", "--debug=10.0.0.1:8", "10.0.0.1:8", debug},
		{"", "", "1000 15ms 0s", rest},
		{"LOG_LEVEL=trace", "", "DEBUG", level},
		{"LOG_LEVEL=Debug", "", "DEBUG", level},
		{"", "", "INFO", level},
		{"LOG_LEVEL=warning", "", "WARN", level},
		{"LOG_LEVEL=error", "", "ERROR", level},
		{"LOG_LEVEL=fatal", "", "ERROR+4", level},
		{"LOG_LEVEL=panic", "", "ERROR+4", level},
	} {
		name, value, _ := strings.Cut(c.variable, "=")
		args := strings.Fields(c.flag)
		s, err := readSettings(map[string]string{name: value}, args, io.Discard)
		if err != nil || c.got(s) != c.want {
			t.Errorf("%s %s: %+v, %v; want %s", c.variable, c.flag, s, err, c.want)
		}
	}
}

// Each variable changes what it names.
func TestVariablesAreOptions(t *testing.T) {
	s := redistest.Must(readSettings(map[string]string{
		"HOST": "h", "PORT": "1", "GRPC_HOST": "g", "GRPC_PORT": "2", "PROMETHEUS_ADDR": "m:3",
		"GRPC_MAX_CONNECTION_AGE": "4h", "GRPC_MAX_CONNECTION_AGE_GRACE": "5m", "LOG_FORMAT": "json",
		"RUNTIME_ROOT": "/root", "RUNTIME_SUBDIRECTORY": "sub", "RUNTIME_APPDIRECTORY": "app",
		"MERGE_DOMAIN_CONFIG": "true", "SHADOW_MODE": "true", "QUOTA_MODE": "true",
		"RESPONSE_DYNAMIC_METADATA": "true", "LIMIT_RESPONSE_HEADERS_ENABLED": "true",
		"LIMIT_LIMIT_HEADER": "X-L", "LIMIT_REMAINING_HEADER": "X-R", "LIMIT_RESET_HEADER": "X-T",
		"NEAR_LIMIT_RATIO": "0.5", "CACHE_KEY_PREFIX": "p:", "CALENDAR_ZONE": "UTC", "REDIS_POOL_SIZE": "6",
	}, nil, io.Discard))(t)
	got, want := s.options(), rls.Options{
		Prefix: "p:", Budget: 15 * time.Millisecond, Calendar: time.UTC, Merge: true, Shadow: true,
		Quota: true, Headers: true, LimitHeader: "X-L", RemainingHeader: "X-R", ResetHeader: "X-T",
		Metadata: true, NearRatio: 0.5,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	const rest = "h:1 g:2 m:3 4h0m0s 5m0s json /root/sub/app 6"
	all := fmt.Sprint(address(s.Host, s.Port), " ", address(s.GRPCHost, s.GRPCPort), " ", s.Metrics, " ",
		s.MaxAge, " ", s.MaxAgeGrace, " ", s.LogFormat, " ", s.source(), " ", s.RedisPool)
	if all != rest {
		t.Errorf("%s, want %s", all, rest)
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9/logging"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// asService makes the test binary act as ratelimit with its arguments, as a process of its own.
const asService = "RATELIMIT_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
	}
	logging.Disable()
	redistest.VerifyNoLeaks(m)
}

// A process is ratelimit, running.
type process struct {
	cmd       *exec.Cmd
	grpc, web string // addresses
	metrics   string
	debug     string
	out       log // what it has printed; complete after wait
	copied    sync.WaitGroup
}

// A log is the lines that a process has printed.
type log struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var variable = regexp.MustCompile(`^[A-Z_]+=`)

var addressOf = regexp.MustCompile(`^(gRPC|HTTP|metrics|debug) +\S*:(\d+) `)

// example is the configuration of the guide.
const example = "../../examples/envoy/ratelimit.yaml"

// start starts ratelimit on free ports, and waits until it has printed them all. It has the limits of the
// guide and an embedded Redis, unless args say otherwise. An argument such as NAME=value is a variable.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{}
	env := append(os.Environ(), asService+"=1",
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1")
	// A busy machine must not make the fallback decide, unless args have another budget.
	flags := []string{"--budget", "1s", "--config", example, "--redis", "embedded"}
	for _, arg := range args {
		if variable.MatchString(arg) {
			env = append(env, arg)
		} else {
			flags = append(flags, arg)
		}
	}
	p.cmd = exec.Command(os.Args[0],
		append(flags, "--grpc", "0", "--http", "0", "--debug", "0", "--metrics", "127.0.0.1:0")...)
	p.cmd.Env = env
	stderr := redistest.Must(p.cmd.StderrPipe())(t)
	redistest.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); p.copied.Wait(); _ = p.cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for p.debug == "" && lines.Scan() {
		p.out.add(lines.Text())
		if found := addressOf.FindStringSubmatch(lines.Text()); found != nil {
			fields := map[string]*string{
				"gRPC": &p.grpc, "HTTP": &p.web, "metrics": &p.metrics, "debug": &p.debug,
			}
			*fields[found[1]] = "127.0.0.1:" + found[2]
		}
	}
	if p.debug == "" {
		t.Fatalf("ratelimit ended:\n%s", &p.out)
	}
	p.copied.Go(func() {
		for lines.Scan() {
			p.out.add(lines.Text())
		}
	})
	return p
}

// wait waits until the process has ended well.
func (p *process) wait(t *testing.T) {
	t.Helper()
	p.copied.Wait()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &p.out)
	}
}

// writeFile writes a file, and the folders above it.
func writeFile(t testing.TB, name, text string) {
	t.Helper()
	redistest.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	redistest.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil))(t)
	reply := redistest.Must((&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r))(t)
	defer reply.Body.Close()
	body := redistest.Must(io.ReadAll(reply.Body))(t)
	return reply.StatusCode, string(body)
}

// dial returns a connection to a port of gRPC.
func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn := redistest.Must(grpc.NewClient(address, plain))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask returns what a service replies to descriptors such as "one=a two=b*0", of which the last one has 0
// hits: "OK 1, OVER 0". A number in front is the hits of the request.
func ask(ctx context.Context, conn *grpc.ClientConn, text string) (string, error) {
	in := &pb.RateLimitRequest{Domain: "example"}
	_, _ = fmt.Sscan(text, &in.HitsAddend)
	for one := range strings.FieldsSeq(text) {
		key, value, found := strings.Cut(one, "=")
		if !found {
			continue
		}
		value, hits, explicit := strings.Cut(value, "*")
		d := &descriptor.RateLimitDescriptor{
			Entries: []*descriptor.RateLimitDescriptor_Entry{{Key: key, Value: value}},
		}
		if explicit {
			d.HitsAddend = wrapperspb.UInt64(uint64(hits[0] - '0'))
		}
		in.Descriptors = append(in.Descriptors, d)
	}
	out, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, in)
	var each []string
	for _, status := range out.GetStatuses() {
		code := strings.TrimSuffix(status.GetCode().String(), "_LIMIT")
		each = append(each, fmt.Sprint(code, " ", status.GetLimitRemaining()))
	}
	return strings.Join(each, ", "), err
}

// The service runs without a Redis by one command line, which is that of the guide, and all its ports do
// what they say.
func TestTheServiceOfTheGuide(t *testing.T) {
	p := start(t)
	conn := dial(t, p.grpc)
	for _, want := range []string{"OK 4", "OK 3", "OK 2", "OK 1", "OK 0", "OVER 0"} {
		if got := redistest.Must(ask(t.Context(), conn, "user=ann"))(t); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	reply, err := healthpb.NewHealthClient(conn).Check(t.Context(),
		&healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", reply, err)
	}
	for url, want := range map[string]string{
		p.web + "/healthcheck":            "200 OK",
		p.web + "/check/example?user=ann": "429 {",
		p.debug + "/rlconfig": "200 example.route_orders: 10 per 1m0s, " +
			"algorithm=rratelimiter, fallback=local, name=\"orders\"",
		p.debug + "/state":     "200 degraded: false",
		p.metrics + "/metrics": "200 # HELP",
	} {
		if code, body := get(t, url); !strings.HasPrefix(fmt.Sprint(code, " ", body), want) {
			t.Errorf("%s: %d %s, want %s", url, code, body, want)
		}
	}
	command := regexp.MustCompile(`curl -i ` +
		`'http://localhost:\d+(/check/\S+)'`).FindStringSubmatch(p.out.String())
	if command == nil {
		t.Fatalf("no command is printed:\n%s", &p.out)
	}
	if code, _ := get(t, p.web+command[1]); code != 200 {
		t.Errorf("%s: %d", command[0], code)
	}
}

// watchHealth returns a function that waits for the next health, or the error with which the watch ends.
func watchHealth(t *testing.T, conn *grpc.ClientConn) (next func() string) {
	t.Helper()
	stream := redistest.Must(healthpb.NewHealthClient(conn).Watch(t.Context(),
		&healthpb.HealthCheckRequest{Service: "ratelimit"}))(t)
	return func() string {
		reply, err := stream.Recv()
		if err != nil {
			return status.Convert(err).Message()
		}
		return reply.GetStatus().String()
	}
}

// On SIGTERM the health is bad at once, and requests that come until the end of the process have their
// answers.
func TestSIGTERMLosesNoRequest(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, "--redis", server.Addr)
	conn := dial(t, p.grpc)
	ctx := t.Context()
	nextHealth := watchHealth(t, conn)
	if got := nextHealth(); got != "SERVING" {
		t.Fatal(got)
	}
	keptAlive := &http.Client{Transport: new(http.Transport)}
	defer keptAlive.CloseIdleConnections()
	lastOfConnection := func() bool {
		url := "http://" + p.web + "/check/example?user=eve"
		r := redistest.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
		reply := redistest.Must(keptAlive.Do(r))(t)
		_ = reply.Body.Close()
		return reply.Close
	}
	if lastOfConnection() {
		t.Error("a connection of HTTP ends with its first request")
	}
	redistest.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if got := nextHealth(); got != "NOT_SERVING" {
		t.Fatal(got)
	}
	if code, _ := get(t, p.web+"/healthcheck"); code != 503 {
		t.Errorf("/healthcheck: %d", code)
	}
	if !lastOfConnection() {
		t.Error("a connection of HTTP stays open until it is cut")
	}
	for range 50 { // a balancer that has not noticed yet
		redistest.Must(ask(t.Context(), conn, "user=bob"))(t)
	}
	// The watch, which the client leaves open, ends before the ports close.
	if got := nextHealth(); got != "the service ends" {
		t.Errorf("the watch ends with %s", got)
	}
	p.wait(t)
}

// A swapped configuration is served, and a bad one keeps the old one and says file, line and key.
func TestTheConfigurationIsReloaded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sub", "config", "limits.yaml")
	write := func(limit string) {
		writeFile(t, file, "domain: example\ndescriptors: [{key: a, rate_limit: {"+limit+"}}]")
	}
	write("unit: day, requests_per_unit: 1")
	p := start(t, "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=sub", "--config", "", "LOG_FORMAT=json")
	shows := func(want string) func() bool {
		return func() bool { _, body := get(t, p.debug+"/rlconfig"); return strings.Contains(body, want) }
	}
	write("unit: day, requests_per_unit: 2")
	redistest.Eventually(t, "the new limit", shows("example.a: 2 per 24h"))
	write("unit: days")
	redistest.Eventually(t, "the bad file is counted", func() bool {
		_, body := get(t, p.metrics+"/metrics")
		return strings.Contains(body, "config_load_error 1")
	})
	if !shows("example.a: 2 per 24h")() {
		t.Error("a bad file has changed the limits")
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.copied.Wait()
	for _, want := range []string{file + ":2: descriptors[0].rate_limit.unit is", `"level":"ERROR"`} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &p.out)
		}
	}
}

// What names another service than this one is refused, with its name.
func TestForeignSettingsAreRefused(t *testing.T) {
	for setting, want := range map[string]string{
		"CONFIG_TYPE=GRPC_XDS_SOTW": `CONFIG_TYPE is "GRPC_XDS_SOTW", must be FILE: configuration by ` +
			`xDS is not supported yet`,
		"BACKEND_TYPE=memcache":    `BACKEND_TYPE is "memcache", must be redis`,
		"REDIS_SOCKET_TYPE=unix":   "REDIS_SOCKET_TYPE is",
		"REDIS_PERSECOND=true":     "REDIS_PERSECOND is",
		"GRPC_UDS=/run/x":          "GRPC_UDS is",
		"GRPC_CLIENT_TLS_SAN=x":    "GRPC_CLIENT_TLS_SAN is",
		"GRPC_SERVER_USE_TLS=true": "GRPC_SERVER_USE_TLS is",
		"REDIS_TYPE=ring":          `REDIS_TYPE is "ring", must be SINGLE, SENTINEL or CLUSTER`,
		"REDIS_TYPE=redis://:pw@h": `REDIS_TYPE is "redis://***@h", must be SINGLE`,
		"PORT=redis://:pw@h":       `PORT is "redis://***@h", must be of type int`,
		"LOG_LEVEL=loud":           "LOG_LEVEL is",
		"PROMETHEUS_PATH=metrics":  `PROMETHEUS_PATH is "metrics", must be a path`,
		"PROMETHEUS_PATH=/{x":      "PROMETHEUS_PATH is",
		"PROMETHEUS_PATH=//x":      "PROMETHEUS_PATH is",
		"REDIS_POOL_SIZE=-1":       `REDIS_POOL_SIZE is "-1", must be at least 0`,
		"NEAR_LIMIT_RATIO=2":       `NEAR_LIMIT_RATIO is "2", must be above 0 and at most 1`,
		"NEAR_LIMIT_RATIO=0":       "NEAR_LIMIT_RATIO is",
		"CALENDAR_ZONE=Mars": `--calendar or CALENDAR_ZONE is "Mars", must be a time zone such as ` +
			"Europe/Berlin",
		"PORT=http":                    `PORT is "http", must be of type int`,
		"GRPC_PORT=-1":                 `--grpc or GRPC_PORT is "-1", must be a port from 0 to 65535`,
		"REDIS_URL=host":               `address 1 of --redis or REDIS_URL must be HOST:PORT`,
		"RUNTIME_ROOT=/does/not/exist": "--config or RUNTIME_ROOT names: stat /does",
	} {
		name, value, _ := strings.Cut(setting, "=")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var out strings.Builder
		environment := map[string]string{"RUNTIME_ROOT": "/does/not/exist", name: value}
		code := run(ctx, environment, nil, io.Discard, &out)
		if code != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %d %s, want %s", setting, code, &out, want)
		}
		cancel()
	}
	for _, c := range []struct {
		arg  string
		code int
		want string // of the output, in which no password is
	}{
		{"--help", 0, "-config FILE"}, {"--version", 0, "ratelimit "},
		{"redis://:pw@h", 1, "an argument has no flag"},
		{"--http=redis://:pw@h", 1, "://***@h"}, {"--redis://:pw@h", 1, "://***@h"},
		{"--config=redis://:pw@h", 1, "://***@h"},
		{"--http=:8080", 1, `invalid value ":8080" for flag -http: must be a port from 0 to 65535`},
		{"--http=65536", 1, `--http or PORT is "65536", must be a port from 0 to 65535`},
		{"--grpc=x", 1, `invalid value "x" for flag -grpc: must be a port from 0 to 65535`},
		{"--connections=x", 1, `invalid value "x" for flag -connections: must be a number from 1`},
		{"--connections=0", 1, `--connections is "0", must be a number from 1`},
		{"--budget=5", 1, `invalid value "5" for flag -budget: must be a duration such as 15ms`},
		{"--budget=1us", 1, "--budget is 1µs, must be at least 1ms"},
		{"--lease=5", 1, `invalid value "5" for flag -lease: must be a duration such as 1s`},
		{"--lease=1ms", 1, "--lease is 1ms, must be 0 or at least 5ms"},
		{"--metrics=9090", 1, `--metrics or PROMETHEUS_ADDR is "9090", must be HOST:PORT`},
		{"--debug=x", 1, `--debug, or DEBUG_HOST and DEBUG_PORT, is "127.0.0.1:x", must be HOST:PORT`},
	} {
		var out strings.Builder
		code := run(t.Context(), nil, []string{c.arg}, &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "pw") {
			t.Errorf("%s: %d, %s", c.arg, code, &out)
		}
	}
}

// The service speaks TLS with its clients, whose certificates it checks, and with a Redis that asks for a
// password.
func TestTLSAndPassword(t *testing.T) {
	pki := redistest.NewPKI(t)
	file := func(name string) string { return filepath.Join(pki.Dir, name) }
	args, address := pki.Args(t)
	server := redistest.Start(t, args...)
	user := []any{"ACL", "SETUSER", "limits", "on", ">secret", "~*", "&*", "+@all"}
	redistest.NoError(t, server.Admin().Do(t.Context(), user...).Err())
	p := start(t, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+file("server.pem"),
		"GRPC_SERVER_TLS_KEY="+file("server-key.pem"), "GRPC_CLIENT_TLS_CACERT="+file("ca.pem"),
		"REDIS_TLS=true", "REDIS_TLS_CACERT="+file("ca.pem"), "REDIS_AUTH=limits:secret",
		"REDIS_TLS_CLIENT_CERT="+file("client.pem"), "REDIS_TLS_CLIENT_KEY="+file("client-key.pem"),
		"--redis", address, "--budget", "10s")
	for shows, want := range map[bool]codes.Code{true: codes.OK, false: codes.Unavailable} {
		conn := redistest.Must(grpc.NewClient(p.grpc,
			grpc.WithTransportCredentials(credentials.NewTLS(pki.Config(shows)))))(t)
		if _, err := ask(t.Context(), conn, "user=ann"); status.Code(err) != want {
			t.Errorf("with a certificate: %v; %v", shows, err)
		}
		_ = conn.Close()
	}
	if keys, err := server.Admin().Keys(t.Context(), "*user=ann*").Result(); err != nil || len(keys) == 0 {
		t.Errorf("Redis has the keys %v, %v", keys, err)
	}
}

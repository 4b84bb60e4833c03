package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// An envoy is a running Envoy.
type envoy struct {
	address string
	client  *http.Client
}

// freeAddress returns an address on which nothing listens. Its port is below those that a system gives to
// connections, and to listeners that ask for any: otherwise another test could have it before Envoy does.
func freeAddress(t *testing.T) string {
	t.Helper()
	var address string
	redistest.Until(t, "a free port", func() error {
		address = fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		return listener.Close()
	})
	return address
}

// startEnvoy starts Envoy with a configuration, and waits until it listens on address.
func startEnvoy(t *testing.T, config, address string) *envoy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	redistest.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	var out strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, redistest.Envoy.Binary(t), "--config-path", file, "--disable-hot-restart",
		"--concurrency", "1", "--log-level", "error", "--service-cluster", "proxy")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	redistest.Eventually(t, "Envoy listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return &envoy{address, &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true}}}
}

// get returns the response to a request with header fields such as "foo: a, bar: b".
func (e *envoy) get(t *testing.T, path, fields string) *http.Response {
	t.Helper()
	url := "http://" + e.address + path
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	for field := range strings.SplitSeq(fields, ", ") {
		if name, value, found := strings.Cut(field, ": "); found {
			r.Header.Set(name, value)
		}
	}
	reply := redistest.Must(e.client.Do(r))(t)
	_ = reply.Body.Close()
	return reply
}

// The example of the guide works: Envoy refuses what is over the limit, and charges tokens at the end of
// a stream.
func TestTheExampleWorks(t *testing.T) {
	redistest.Envoy.Binary(t)
	p := start(t, nil, "--config", "../../examples/envoy/ratelimit.yaml", "--redis", "embedded")
	text := redistest.Must(os.ReadFile("../../examples/envoy/envoy.yaml"))(t)
	config, gateway := strings.Replace(string(text), "timeout: 0.02s", "timeout: 2s", 1), freeAddress(t)
	for port, address := range map[string]string{
		"10000}": gateway, "10001}": freeAddress(t), "8081}": p.grpc, "9901}": freeAddress(t),
	} {
		_, free, _ := net.SplitHostPort(address)
		config = strings.ReplaceAll(config, "port_value: "+port, "port_value: "+free+"}")
	}
	e := startEnvoy(t, config, gateway)
	for i := range 6 {
		reply := e.get(t, "/", "user: ann")
		if want := 200 + i/5*229; reply.StatusCode != want ||
			reply.Header.Get("X-Ratelimit-Remaining") != fmt.Sprint(max(0, 4-i)) {
			t.Errorf("request %d: %d %v", i+1, reply.StatusCode, reply.Header)
		}
	}
	if reply := e.get(t, "/", "user: eve"); reply.StatusCode != 200 {
		t.Errorf("another user: %d", reply.StatusCode)
	}
	// Each costs 600 tokens of 1,000, so two pass.
	if reply := e.get(t, "/chat", "user: ann"); reply.StatusCode != 200 {
		t.Errorf("/chat: %d", reply.StatusCode)
	}
	redistest.Eventually(t, "the first answer is charged", func() bool { return p.tokens(t, "ann") == "400" })
	if reply := e.get(t, "/chat", "user: ann"); reply.StatusCode != 200 {
		t.Errorf("/chat with 400 tokens: %d", reply.StatusCode)
	}
	redistest.Eventually(t, "the debt", func() bool { return p.tokens(t, "ann") == "0" })
	if reply := e.get(t, "/chat", "user: ann"); reply.StatusCode != 429 {
		t.Errorf("/chat in debt: %d", reply.StatusCode)
	}
}

// tokens returns what /json says is left of a user's tokens.
func (p *process) tokens(t *testing.T, user string) string {
	t.Helper()
	out := redistest.Must(look(t.Context(), dial(t, p.grpc), "example", "tokens", user))(t)
	return fmt.Sprint(out.GetStatuses()[0].GetLimitRemaining())
}

// A route of the proxy of the scripts: its path, and the header fields of each of its descriptors.
type route struct {
	path        string
	descriptors []string
	perRoute    string // typed configuration instead of descriptors
	retries     string
}

// quota returns a descriptor of a service with hits.
func quota(service, hits string, done bool) string {
	return fmt.Sprintf(`{actions: [{generic_key: {descriptor_key: service, descriptor_value: %s}}], `+
		`hits_addend: {number: %s}, apply_on_stream_done: %v}`, service, hits, done)
}

// proxy returns the configuration of Envoy with some routes to an upstream.
func proxy(listen, upstream, service string, routes ...route) string {
	var b strings.Builder
	for _, r := range routes {
		fmt.Fprintf(&b, "              - match: {prefix: %s}\n", r.path)
		var limits []string
		for _, d := range r.descriptors {
			var actions []string
			for name := range strings.FieldsSeq(d) {
				actions = append(actions, fmt.Sprintf("{request_headers: {header_name: %s, "+
					"descriptor_key: %s}}", name, name))
			}
			limits = append(limits, "{actions: ["+strings.Join(actions, ", ")+"]}")
		}
		fmt.Fprintf(&b, "                route: {cluster: upstream, rate_limits: [%s]%s}\n",
			strings.Join(limits, ", "), r.retries)
		if r.perRoute != "" {
			fmt.Fprintf(&b, "                typed_per_filter_config: {envoy.filters.http.ratelimit: "+
				"{\"@type\": "+
				"type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute, "+
				"rate_limits: [%s]}}\n", r.perRoute)
		}
	}
	cluster := func(name, address string, h2 bool) string {
		host, port, _ := net.SplitHostPort(address)
		options := ""
		if h2 {
			options = `, typed_extension_protocol_options: ` +
				`{envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {"@type": ` +
				`type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, ` +
				`explicit_http_config: {http2_protocol_options: {}}}}`
		}
		return fmt.Sprintf("  - {name: %s, load_assignment: {cluster_name: %s, endpoints: "+
			"[{lb_endpoints: [{endpoint: {address: "+
			"{socket_address: {address: %s, port_value: %s}}}}]}]}%s}\n", name, name, host, port, options)
	}
	host, port, _ := net.SplitHostPort(listen)
	text, _ := os.ReadFile("testdata/proxy.yaml")
	return fmt.Sprintf(string(text), host, port, &b,
		cluster("upstream", upstream, strings.HasPrefix(routes[0].path, "/grpc"))+cluster("ratelimit",
			service, true))
}

// upstream returns the address of an application that echoes the header field x-backend, which metadata of a
// quota have set.
func upstream(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Served-By", r.Header.Get("X-Backend"))
}

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
func freeAddress(t testing.TB) string {
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

// startEnvoy starts Envoy with a configuration, whose ports are replaced by those of addresses, and waits
// until it listens in place of port 10000.
func startEnvoy(t *testing.T, config string, addresses map[string]string) *envoy {
	t.Helper()
	address := freeAddress(t)
	addresses["10000"], addresses["9901"] = address, freeAddress(t)
	text := string(redistest.Must(os.ReadFile(config))(t))
	for port, instead := range addresses {
		_, free, _ := net.SplitHostPort(instead)
		text = strings.ReplaceAll(text, "port_value: "+port+"}", "port_value: "+free+"}")
	}
	text = strings.Replace(text, "timeout: 0.02s", "timeout: 2s", 1)
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	writeFile(t, file, text)
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
	p := start(t)
	e := startEnvoy(t, "../../examples/envoy/envoy.yaml",
		map[string]string{"10001": freeAddress(t), "8081": p.grpc})
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
	conn := dial(t, p.grpc)
	left := func(want string) {
		t.Helper()
		redistest.Eventually(t, want, func() bool {
			return redistest.Must(ask(t.Context(), conn, "tokens=ann*0"))(t) == want
		})
	}
	left("OK 400") // when the first answer is charged
	if reply := e.get(t, "/chat", "user: ann"); reply.StatusCode != 200 {
		t.Errorf("/chat with 400 tokens: %d", reply.StatusCode)
	}
	left("OVER 0")
	if reply := e.get(t, "/chat", "user: ann"); reply.StatusCode != 429 {
		t.Errorf("/chat in debt: %d", reply.StatusCode)
	}
}

// behindEnvoy starts the service and an Envoy with the limits and the routes of the reference service's
// scripts, in front of an application that echoes the header field x-backend, which metadata of a quota have set.
func behindEnvoy(t *testing.T, args ...string) (*process, *envoy) {
	t.Helper()
	redistest.Envoy.Binary(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Served-By", r.Header.Get("X-Backend"))
	}))
	t.Cleanup(server.Close)
	p := start(t, append(args, "--config", "testdata/scripts.yaml", "RESPONSE_DYNAMIC_METADATA=true")...)
	return p, startEnvoy(t, "testdata/envoy.yaml", map[string]string{
		"10001": strings.TrimPrefix(server.URL, "http://"), "8081": p.grpc,
	})
}

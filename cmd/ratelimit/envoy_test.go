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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A gateway is a running Envoy or nginx.
type gateway struct {
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
func startEnvoy(t *testing.T, config string, addresses map[string]string) *gateway {
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
	return startGateway(t, address, redistest.Envoy.Binary(t), "--config-path", file, "--disable-hot-restart",
		"--concurrency", "1", "--log-level", "error", "--service-cluster", "proxy")
}

// startGateway starts a program, and waits until it listens on an address.
func startGateway(t *testing.T, address, program string, args ...string) *gateway {
	t.Helper()
	var out strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
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
	redistest.Eventually(t, filepath.Base(program)+" listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return &gateway{address, &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true}}}
}

// get returns the response to a request with header fields such as "foo: a, bar: b".
func (g *gateway) get(t *testing.T, path, fields string) *http.Response {
	t.Helper()
	url := "http://" + g.address + path
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	for field := range strings.SplitSeq(fields, ", ") {
		if name, value, found := strings.Cut(field, ": "); found {
			r.Header.Set(name, value)
		}
	}
	reply := redistest.Must(g.client.Do(r))(t)
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
		if want := 200 + i/5*229; reply.StatusCode != want || reply.Header.Get("X-Ratelimit-Limit") != "5" ||
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

// The locations of the guide work in nginx: a limit for each value of X-User, whatever it has, and one for
// requests without it. No request passes without the service.
func TestTheLocationsForNginxWork(t *testing.T) {
	program, dir, p := redistest.Require(t, "nginx"), t.TempDir(), start(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	locations := strings.NewReplacer("127.0.0.1:8080", p.web, "http://127.0.0.1:10001", server.URL).
		Replace(read(t, "../../examples/envoy/nginx.conf"))
	address, temporary := freeAddress(t), ""
	for _, module := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += module + "_temp_path " + dir + ";"
	}
	file := filepath.Join(dir, "nginx.conf")
	writeFile(t, file, "daemon off; master_process off; pid "+dir+"/pid; events {}\n"+
		"http { access_log off; "+temporary+" server { listen "+address+";\n"+locations+"}}")
	g := startGateway(t, address, program, "-e", "stderr", "-c", file)
	expect := func(user string, want int) {
		t.Helper()
		reply := g.get(t, "/", user)
		after := reply.Header.Get("Retry-After")
		if reply.StatusCode != want || (after != "") != (want == 429) {
			t.Errorf("%s: %d, Retry-After %q, want %d", user, reply.StatusCode, after, want)
		}
	}
	for _, user := range []string{"X-User: ann", "X-User: ann&x=1", "X-User: ann#", ""} {
		for range 5 {
			expect(user, 200)
		}
		expect(user, 429)
	}
	redistest.NoError(t, p.cmd.Process.Kill())
	p.copied.Wait()
	_ = p.cmd.Wait() // it was killed
	expect("X-User: eve", 503)
}

// behindEnvoy starts the service and an Envoy with the limits and the routes of the reference service's
// scripts, in front of an application that echoes the header field x-backend, which metadata of a quota have
// set.
func behindEnvoy(t *testing.T, args ...string) (*process, *gateway) {
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

// Each script of the reference service's integration tests, retold: requests through a real Envoy, with a
// path, header fields and the status that it must have.
func TestScriptsOfTheReference(t *testing.T) {
	for script, steps := range map[string][]string{
		"simple-get": {"/twoheader foo: test, baz: shady = 200"},
		"trigger-ratelimit": {"3 /twoheader foo: pelle, baz: not-so-shady = 200",
			"2 /twoheader foo: pelle, baz: not-so-shady = 429"},
		"trigger-shadow-mode-key": {
			"6 /twoheader foo: pelle, baz: shady = 200",
		},
		"replaces": {
			"/twoheader foo: a, bar: banned = 429", "/fourheader foo: a, bar: banned, from: proxy, to: " +
				"mock = 429",
			"2 /fourheader foo: a, bar: banned, from: proxy, to: override = 200",
			"/fourheader foo: a, bar: banned, from: proxy, to: override = 429",
			"2 /fourheader foo: b, bar: strict, from: proxy, to: strict = 200",
			"/fourheader foo: b, bar: strict, from: proxy, to: strict = 429",
			"/fourheader foo: b, bar: strict, from: proxy, to: other = 200",
			"/fourheader foo: b, bar: strict, from: proxy, to: other = 429",
			"4 /fiveheader foo: b, bar: strict, from: proxy, to: narrow, plan: gold = 200",
			"/fiveheader foo: b, bar: strict, from: proxy, to: narrow, plan: gold = 429",
			"/twoheader foo: c, bar: strict = 200", "/twoheader foo: c, bar: strict = 429",
			"2 /fourheader foo: d, bar: d, from: proxy, to: narrow = 200",
			"/fourheader foo: d, bar: d, from: proxy, to: narrow = 429",
		},
		"quota": {"2 /quota = 200", "/quota = 429"},
		// Not 3, as with the reference service: a request is looked at, and passes only if something is left.
		"token-quota": {"2 /tokenquota = 200 settled", "/tokenquota = 429"},
		"multiservice": {"1 /multiservice = 200 service_1 settled",
			"2 /multiservice = 200 service_2 settled", "/multiservice = 429"},
		"value-included-in-stats": {"2 /unspec unspec: seen = 200", "/unspec unspec: seen = 429"},
	} {
		t.Run(script, func(t *testing.T) {
			p, e := behindEnvoy(t, "--redis", redistest.Start(t).Addr)
			for _, step := range steps {
				play(t, p, e, step)
			}
			if script == "value-included-in-stats" {
				want := `ratelimit_service_rate_limit_over_limit{domain="rl",key1="unspec_seen",key2=""} 1`
				if _, body := get(t, p.metrics+"/metrics"); !strings.Contains(body, want) {
					t.Errorf("the metrics lack %s", want)
				}
			}
		})
	}
}

// play sends the requests of a step: "2 /path field: value = 200 backend". A step with "settled" waits
// after each request until its end has been charged.
func play(t *testing.T, p *process, e *gateway, step string) {
	t.Helper()
	ask, want, _ := strings.Cut(step, " = ")
	times := 1
	if n, _ := fmt.Sscanf(ask, "%d ", &times); n == 1 {
		_, ask, _ = strings.Cut(ask, " ")
	}
	path, fields, _ := strings.Cut(ask, " ")
	want, settled := strings.CutSuffix(want, " settled")
	for range times {
		before := p.hits(t)
		reply := e.get(t, path, fields)
		got := strings.TrimSpace(fmt.Sprint(reply.StatusCode, " ", reply.Header.Get("X-Served-By")))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", step, got)
		}
		if settled {
			redistest.Eventually(t, "the end of the request is charged",
				func() bool { return p.hits(t) > before })
		}
	}
}

// hits returns the hits of all services with a quota.
func (p *process) hits(t *testing.T) (sum float64) {
	t.Helper()
	_, body := get(t, p.metrics+"/metrics")
	for line := range strings.Lines(body) {
		var hits float64
		rest, found := strings.CutPrefix(line,
			`ratelimit_service_rate_limit_total_hits{domain="rl",key1="service_service_`)
		if _, number, ok := strings.Cut(rest, "} "); found && ok {
			_, _ = fmt.Sscan(number, &hits)
			sum += hits
		}
	}
	return sum
}

// A crowd sends requests through Envoy until it is stopped.
type crowd struct {
	passed, refused, failed atomic.Int64
	slowest                 atomic.Int64 // in ns
	stopping                chan struct{}
	callers                 sync.WaitGroup
}

func (g *gateway) crowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{stopping: make(chan struct{})}
	for range 4 {
		c.callers.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-c.stopping:
					return
				case <-pace.C:
				}
				start := time.Now()
				switch g.get(t, "/load", "load: x").StatusCode {
				case 200:
					c.passed.Add(1)
				case 429:
					c.refused.Add(1)
				default:
					c.failed.Add(1)
				}
				c.slowest.Store(max(c.slowest.Load(), int64(time.Since(start))))
			}
		})
	}
	return c
}

// until waits until n more requests have passed or been refused.
func (c *crowd) until(t *testing.T, n int64) {
	t.Helper()
	before := c.passed.Load() + c.refused.Load()
	redistest.Eventually(t, "requests are decided", func() bool {
		return c.passed.Load()+c.refused.Load() >= before+n
	})
}

// stop ends the crowd, and reports errors and what is above the limit of 100.
func (c *crowd) stop(t *testing.T, most int64) {
	t.Helper()
	close(c.stopping)
	c.callers.Wait()
	slowest := time.Duration(c.slowest.Load())
	t.Logf("%d passed, %d refused, the slowest took %v", c.passed.Load(), c.refused.Load(), slowest)
	if c.failed.Load() > 0 {
		t.Errorf("%d requests failed", c.failed.Load())
	}
	if c.passed.Load() > most {
		t.Errorf("%d requests passed, the limit is %d", c.passed.Load(), most)
	}
}

// shows waits until the page of the state has all texts.
func (p *process) shows(t *testing.T, texts ...string) {
	t.Helper()
	redistest.Eventually(t, strings.Join(texts, ", "), func() bool {
		_, state := get(t, p.debug+"/state")
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(state, text) })
	})
}

// While Redis hangs or is dead, requests through Envoy are decided, and the limit holds before, meanwhile
// and after.
func TestRedisFailsUnderLoad(t *testing.T) {
	for failure, fail := range map[string]func(*redistest.Server) (end func()){
		"SIGSTOP": func(s *redistest.Server) func() { return s.Freeze(t) },
		"kill":    func(s *redistest.Server) func() { s.Stop(); return func() { s.Restart(t) } },
	} {
		for _, lease := range []string{"0", "1s"} {
			t.Run(failure+", leases of "+lease, func(t *testing.T) {
				server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
				p, e := behindEnvoy(t, "--redis", server.Addr, "--budget", "15ms", "--lease", lease)
				c := e.crowd(t)
				c.until(t, 20)
				end := fail(server)
				c.until(t, 40)
				p.shows(t, "degraded: true")
				c.until(t, 20)
				end()
				p.shows(t, "degraded: false", "unbooked permits: 0") // Redis knows all
				c.until(t, 60)
				c.stop(t, 100)
			})
		}
	}
}

// A failover of Sentinel costs no request an error. The replica may lack the last grants: twice the limit
// is the bound.
func TestAFailoverUnderLoad(t *testing.T) {
	redistest.Envoy.Binary(t)
	s := redistest.StartSentinel(t)
	p, e := behindEnvoy(t, "REDIS_TYPE=SENTINEL", "--budget", "15ms",
		"--redis", strings.Join(append([]string{s.MasterName}, s.Addrs...), ","))
	c := e.crowd(t)
	c.until(t, 20)
	s.Failover(t)
	c.until(t, 20)
	p.shows(t, "degraded: false", "unbooked permits: 0") // by the new master
	c.until(t, 60)
	c.stop(t, 200)
}

//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Tokens, by the environment and by a file. The second one counts where both are given.
const tokenOfTests, tokenOfFile = "a token of the tests", "a token of a file"

// serve starts rrl serve and returns its address, its process, and the rest of its output.
func serve(
	t *testing.T, s *redistest.Server, args string, env ...string,
) (url string, p *process, rest *bufio.Reader) {
	t.Helper()
	p = detachedArgs(t, s, append([]string{"serve"}, strings.Fields(args)...)...)
	p.Env = append(p.Env, env...)
	_, rest = p.starts()
	line, err := rest.ReadString('\n')
	url, _, ok := strings.Cut(line, " ")
	if err != nil || !ok {
		t.Fatalf("%q, %v, %s", line, err, &p.stderr)
	}
	return url, p, rest
}

func fetch(t *testing.T, url, password string) (int, string) {
	t.Helper()
	r := redistest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if password != "" {
		r.SetBasicAuth("me", password)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res := redistest.Must(client.Do(r))(t)
	defer res.Body.Close()
	body := redistest.Must(io.ReadAll(res.Body))(t)
	return res.StatusCode, string(body)
}

// serve shows the limiters that match, under its prefix. On this machine other web sites do not reach it by
// names of their own; --host adds the name of a proxy.
func TestServe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, name := range []string{"app:orders", "app:users", "other:orders"} {
		steps(t, s.Addr, step{"set " + name + " 5 1s", 0, "set", ""})
	}
	url, _, _ := serve(t, s, "--listen 127.0.0.1:0 --prefix /limits/ --name-prefix app: --match o* "+
		"--host limits.example")
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/limits/") {
		t.Fatalf("it prints %s", url)
	}
	code, body := fetch(t, url, "")
	if code != http.StatusOK || !strings.Contains(body, "app:orders") ||
		strings.Contains(body, "app:users") || strings.Contains(body, "other:orders") {
		t.Errorf("%d\n%s", code, body)
	}
	for host, want := range map[string]int{"localhost": 200, "limits.example": 200, "evil.example": 421} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		r.Host = host
		res := redistest.Must(http.DefaultClient.Do(r))(t)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, res.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Ctrl-C ends serve soon, even while a stream is open.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url, p, rest := serve(t, s, "--listen 127.0.0.1:0")
	res := redistest.Must(http.Get(url + "live?name=orders"))(t)
	defer res.Body.Close()
	events := bufio.NewReader(res.Body)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		line = redistest.Must(events.ReadString('\n'))(t)
	}
	start := time.Now()
	p.signal(os.Interrupt)
	if left, err := io.ReadAll(rest); err != nil || len(left) > 0 {
		t.Errorf("it prints %q, %v", left, err)
	}
	p.ends(0, "")
	if took := time.Since(start); took > 20*time.Second { // a second or two; the machine may be busy
		t.Errorf("it took %v to stop", took)
	}
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
}

// Connections beyond mostConnections wait until earlier ones have ended, as those without a request do.
func TestServeBoundsItsConnections(t *testing.T) {
	t.Parallel()
	url, _, _ := serve(t, redistest.Start(t), "--listen 127.0.0.1:0")
	address := strings.Trim(strings.TrimPrefix(url, "http:"), "/")
	var conns []net.Conn
	for range mostConnections + 1 {
		conn := redistest.Must(net.Dial("tcp", address))(t)
		t.Cleanup(func() { _ = conn.Close() })
		redistest.Must(io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		conns = append(conns, conn)
	}
	for _, conn := range conns[:mostConnections] {
		redistest.Must(conn.Read(make([]byte, 1)))(t)
	}
	further := conns[mostConnections]
	_ = further.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := further.Read(make([]byte, 1)); err == nil {
		t.Errorf("one more connection is served beside %d", mostConnections)
	}
	_ = conns[0].Close()
	_ = further.SetReadDeadline(time.Time{})
	redistest.Must(further.Read(make([]byte, 1)))(t)
	if testing.Short() {
		return
	}
	_ = conns[1].Close()
	half := redistest.Must(net.Dial("tcp", address))(t) // its request does not come as a whole
	defer half.Close()
	redistest.Must(io.WriteString(half, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "))(t)
	_ = half.SetReadDeadline(time.Now().Add(15 * time.Second))
	redistest.Must(io.ReadAll(half))(t)
}

// Other machines reach serve only with the token, by any host name.
func TestServeToOtherMachines(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "token")
	redistest.NoError(t, os.WriteFile(file, []byte(tokenOfFile+"\n"), 0o600))
	url, _, _ := serve(t, s, "--listen :0 --token-file "+file, "RRL_TOKEN="+tokenOfTests)
	if !strings.HasPrefix(url, "http://localhost:") {
		t.Errorf("it prints %s", url)
	}
	for password, want := range map[string]int{"": 401, tokenOfTests: 401, tokenOfFile: 200} {
		if code, _ := fetch(t, url, password); code != want {
			t.Errorf("with %q: %d, want %d", password, code, want)
		}
	}
	if code, body := fetch(t, url+"healthz", ""); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d, %q", code, body)
	}
}

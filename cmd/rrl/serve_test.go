package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const tokenOfTests = "a token of the tests"

// serve starts rrl serve on a free port and returns its address and its process.
func serve(t *testing.T, env []string, args ...string) (url string, cmd *exec.Cmd, rest *bufio.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd = program(ctx, append([]string{"serve"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	stdout := redistest.Must(cmd.StdoutPipe())(t)
	cmd.Stderr = t.Output()
	redistest.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it may have been waited for
	})
	rest = bufio.NewReader(stdout)
	line, err := rest.ReadString('\n')
	url, _, ok := strings.Cut(line, " ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return url, cmd, rest
}

// fetch returns a page.
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

// It shows the limiters that it is told to, under its prefix.
func TestServe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	for _, name := range []string{"app:orders", "app:users", "other:orders"} {
		redistest.NoError(t, c.RateLimiter(name).SetRate(t.Context(), rratelimiter.Overall, 5, time.Second))
	}
	url, _, _ := serve(t, nil, "--redis", s.Addr, "--listen", "127.0.0.1:0", "--prefix", "/limits/",
		"--name-prefix", "app:", "--match", "o*")
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/limits/") {
		t.Fatalf("it prints %s", url)
	}
	code, body := fetch(t, url, "")
	if code != http.StatusOK || !strings.Contains(body, "app:orders") ||
		strings.Contains(body, "app:users") || strings.Contains(body, "other:orders") {
		t.Errorf("%d\n%s", code, body)
	}
}

// Ctrl-C ends it soon, also while somebody looks.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url, cmd, rest := serve(t, nil, "--redis", s.Addr, "--listen", "127.0.0.1:0")
	res := redistest.Must(http.Get(url + "live?name=orders"))(t)
	defer res.Body.Close()
	events := bufio.NewReader(res.Body)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		line = redistest.Must(events.ReadString('\n'))(t)
	}
	start := time.Now()
	redistest.NoError(t, cmd.Process.Signal(os.Interrupt))
	if left, err := io.ReadAll(rest); err != nil || len(left) > 0 {
		t.Errorf("it prints %q, %v", left, err)
	}
	redistest.NoError(t, cmd.Wait())
	if took := time.Since(start); took > 20*time.Second { // a second or two; the machine may be busy
		t.Errorf("it took %v to stop", took)
	}
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
}

// Others reach it with the token only, and by whatever name.
func TestServeToOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "token")
	redistest.NoError(t, os.WriteFile(file, []byte(tokenOfTests+"\n"), 0o600))
	url, _, _ := serve(t, nil, "--redis", s.Addr, "--listen", ":0", "--token-file", file, "--allow-changes")
	if !strings.HasPrefix(url, "http://localhost:") {
		t.Errorf("it prints %s", url)
	}
	for password, want := range map[string]int{"": 401, "wrong": 401, tokenOfTests: 200} {
		if code, _ := fetch(t, url, password); code != want {
			t.Errorf("with %q: %d, want %d", password, code, want)
		}
	}
	if code, body := fetch(t, url+"healthz", ""); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d, %q", code, body)
	}
}

// On this machine other web sites do not reach it by names of theirs; those of a proxy are told.
func TestServeByName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url, _, _ := serve(t, []string{"RRL_TOKEN=" + tokenOfTests}, "--redis", s.Addr, "--listen",
		"localhost:0", "--mask",
		"--host", "limits.example")
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

// What cannot be served is refused before anything listens.
func TestServeRefuses(t *testing.T) {
	s := redistest.Start(t)
	for args, want := range map[string]string{
		"--listen 8380":                     "--listen is \"8380\", must be ADDRESS:PORT",
		"--listen :8380":                    "needs a token, by RRL_TOKEN or a file",
		"--listen 192.0.2.1:80":             "needs a token, by RRL_TOKEN or a file",
		"--allow-changes":                   "--allow-changes needs a token",
		"--token-file /dev/null":            "/dev/null is empty",
		"--token-file /none/such":           "--token-file: open /none/such",
		"--every 10ms":                      "--every is 10ms, must be at least 1s",
		"--prefix x":                        "Prefix is \"x\", must be a path",
		"--id me":                           "--id is not for serve",
		"--token secret":                    "unknown flag: --token",
		"now":                               "unknown command",
		"--listen localhost:1 --listen x:y": "--listen is \"x:y\", which others reach",
	} {
		code, stdout, stderr := rrl(t.Context(), append([]string{"serve", "--redis", s.Addr},
			strings.Fields(args)...)...)
		if code != exitError || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q, %s", args, code, stdout, stderr)
		}
	}
}

// With --json the address is JSON.
func TestServeJSON(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"serve", "--json", "--redis", s.Addr, "--listen", "127.0.0.1:0"}, nil,
			writer, io.Discard)
	}()
	line, err := bufio.NewReader(reader).ReadString('}')
	if err != nil || !strings.Contains(line, `"url": "http://127.0.0.1:`) {
		t.Errorf("%q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("code %d", code)
	}
	_ = writer.Close()
}

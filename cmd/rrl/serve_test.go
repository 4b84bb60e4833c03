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
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		r.SetBasicAuth("me", password)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// It shows the limiters that it is told to, under its prefix.
func TestServe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	for _, name := range []string{"app:orders", "app:users", "other:orders"} {
		if err := c.RateLimiter(name).SetRate(t.Context(), rratelimiter.Overall, 5, time.Second); err != nil {
			t.Fatal(err)
		}
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
	res, err := http.Get(url + "live?name=orders")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	events := bufio.NewReader(res.Body)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		if line, err = events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if left, err := io.ReadAll(rest); err != nil || len(left) > 0 {
		t.Errorf("it prints %q, %v", left, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
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
	if err := os.WriteFile(file, []byte(tokenOfTests+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
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

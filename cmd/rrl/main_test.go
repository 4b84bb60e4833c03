package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main does
	redistest.VerifyNoLeaks(m)
}

// rrl runs a command line.
func rrl(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // what they contain; empty: nothing is there
	}{
		{"", 0, "rrl demo [--redis ADDRESS]", ""},
		{"help", 0, "rrl demo [--redis ADDRESS]", ""},
		{"--help", 0, "rrl demo [--redis ADDRESS]", ""},
		{"demo -h", 0, "rrl demo [--redis ADDRESS]", ""},
		{"version", 0, "rrl ", ""},
		{"--version", 0, "go1.", ""},
		{"dmo", 2, "", `unknown command "dmo"; run 'rrl help'`},
		{"demo --reds", 2, "", "-reds; run 'rrl help'"},
		{"demo --redis", 2, "", "needs an argument: -redis; run 'rrl help'"},
		{"demo --redis=", 2, "",
			"--redis must be HOST:PORT, as in localhost:6379, or a URL, as in redis://localhost:6379/0; " +
				"it is empty; run"},
		{"demo --redis http://localhost", 2, "", "invalid URL scheme: http; run 'rrl help'"},
		{"demo --redis localhost:port", 2, "", "--redis must be HOST:PORT"},
		{"demo --redis localhost:6379/one", 2, "", "invalid database number"},
		{"demo --redis 127.0.0.1:1", 1, "", "rrl: cannot reach Redis at 127.0.0.1:1: "},
		{"demo now", 2, "", `unexpected argument "now"; run 'rrl help'`},
		{"demo --redis redis://127.0.0.1:1/0", 1, "", "rrl: cannot reach Redis at 127.0.0.1:1: "},
	} {
		code, stdout, stderr := rrl(t.Context(), strings.Fields(c.args)...)
		if code != c.code || !says(stdout, c.stdout) || !says(stderr, c.stderr) {
			t.Errorf("rrl %s: code %d, want %d, with %q on stdout and %q on stderr; printed\n%s\n%s",
				c.args, code, c.code, c.stdout, c.stderr, stdout, stderr)
		}
		if strings.Count(stderr, "\n") > 1 {
			t.Errorf("rrl %s: more than a line on stderr:\n%s", c.args, stderr)
		}
	}
}

// The error of a bad address does not show a password that may be in it.
func TestAddressOfRedis(t *testing.T) {
	for address, want := range map[string]string{
		"localhost:6379": "localhost:6379", "localhost": "localhost:6379", "[::1]:7000": "[::1]:7000",
		"localhost:6379/3":         "localhost:6379",
		"redis://localhost:6379/0": "localhost:6379", "rediss://x:1": "x:1",
		":secret@localhost:6379": "localhost:6379",
		"unix:/tmp/redis.sock":   "/tmp/redis.sock", "unix:///tmp/redis.sock": "/tmp/redis.sock",
	} {
		if opts, err := parseAddress(address); err != nil || opts.Addr != want {
			t.Errorf("%s: %+v, %v; want %s", address, opts, err, want)
		}
	}
	for _, address := range []string{"", "://", "redis://:secret@localhost:port", ":secret@localhost:6379/x",
		"http://:secret@x", "%secret", "a secret"} {
		_, err := parseAddress(address)
		if err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// says reports whether text contains part, and nothing if that is empty.
func says(text, part string) bool {
	return strings.Contains(text, part) && (part != "" || text == "")
}

// A server that takes connections and says nothing is given up soon.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	start := time.Now()
	code, stdout, stderr := rrl(t.Context(), "demo", "--redis", "redis://"+silent.Addr().String())
	if code != 1 || stdout != "" || !strings.Contains(stderr, "cannot reach") {
		t.Errorf("code %d, printed\n%s\n%s", code, stdout, stderr)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestOutputNotTaken(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	for _, command := range []string{"help", "version", "demo"} {
		var stderr strings.Builder
		if code := run(t.Context(), []string{command}, w, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("%s: code %d, printed %q", command, code, stderr.String())
		}
	}
}

func TestColour(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	t.Setenv("TERM", "xterm")
	for noColor, want := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", noColor)
		if got := newPage(null).colour; got != want {
			t.Errorf("with NO_COLOR=%q: %v", noColor, got)
		}
	}
	t.Setenv("NO_COLOR", "")
	if newPage(io.Discard).colour {
		t.Error("colour in what is no file")
	}
	t.Setenv("TERM", "dumb")
	if newPage(null).colour {
		t.Error("colour on a dumb terminal")
	}
	if got := (&page{colour: true}).paint(green, "yes"); got != "\x1b[32myes\x1b[0m" {
		t.Errorf("painted %q", got)
	}
}

// The first error of a page stays, and ends the printing.
func TestPageError(t *testing.T) {
	first := errors.New("first")
	p := newPage(failing{first})
	p.printf("a")
	p.w = failing{errors.New("second")}
	p.printf("b")
	if p.err != first {
		t.Errorf("the error is %v", p.err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

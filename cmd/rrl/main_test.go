package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// asRRL has the test binary act as rrl: with its arguments, and as a process of its own.
const asRRL = "RRL_TEST_AS_RRL"

// asCounter has the test binary count the interrupts that it gets.
const asCounter = "RRL_TEST_AS_COUNTER"

func TestMain(m *testing.M) {
	if os.Getenv(asCounter) != "" {
		countInterrupts()
	}
	if os.Getenv(asRRL) != "" {
		main()
	}
	logging.Disable() // as main does
	redistest.VerifyNoLeaks(m)
}

// rrl runs a command line.
func rrl(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	return typed(ctx, "", args...)
}

// typed runs a command line with something on stdin.
func typed(ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// program returns a command that runs rrl as a process of its own.
func program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asRRL+"=1")
	return cmd
}

// countInterrupts says "ready", counts interrupts, each with a line, and ends with SIGTERM.
func countInterrupts() {
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	fmt.Println("ready")
	for s := range signals {
		if s == syscall.SIGTERM {
			os.Exit(0)
		}
		fmt.Println(s)
	}
}

func TestProgram(t *testing.T) {
	out, err := program(t.Context(), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "rrl ") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // what they contain; empty: nothing is there
	}{
		{"", 0, "Available Commands:", ""},
		{"help", 0, "Available Commands:", ""},
		{"--help", 0, "Exit codes: 0 yes", ""},
		{"demo -h", 0, "embedded in rrl", ""},
		{"version", 0, "rrl ", ""},
		{"--version", 0, "go1.", ""},
		{"completion bash", 0, "__start_rrl", ""},
		{"dmo", 2, "", `unknown command "dmo" for "rrl"; run 'rrl help'`},
		{"demo --reds", 2, "", "unknown flag: --reds; run 'rrl help'"},
		{"demo --redis", 2, "", "needs an argument: --redis; run 'rrl help'"},
		{"demo --redis=", 2, "",
			"--redis must be HOST:PORT, as in localhost:6379, or a URL, as in redis://localhost:6379/0; " +
				"it is empty"},
		{"demo --redis http://localhost", 2, "", "invalid URL scheme: http"},
		{"demo --redis localhost:port", 2, "", "--redis must be HOST:PORT"},
		{"demo --redis localhost:6379/one", 2, "", "invalid database number"},
		{"demo --redis 127.0.0.1:1", 2, "", "rrl: cannot reach Redis at 127.0.0.1:1: "},
		{"demo now", 2, "", `unknown command "now" for "rrl demo"; run 'rrl help'`},
		{"demo --redis redis://127.0.0.1:1/0", 2, "", "rrl: cannot reach Redis at 127.0.0.1:1: "},
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

// says reports whether text contains part, and nothing if that is empty.
func says(text, part string) bool {
	return strings.Contains(text, part) && (part != "" || text == "")
}

// A server that takes connections and says nothing is given up soon.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent := redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	start := time.Now()
	code, stdout, stderr := rrl(t.Context(), "demo", "--redis", "redis://"+silent.Addr().String())
	if code != exitError || stdout != "" || !strings.Contains(stderr, "cannot reach") {
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
		code := run(t.Context(), []string{command}, nil, w, &stderr)
		if code != exitError || stderr.Len() == 0 {
			t.Errorf("%s: code %d, printed %q", command, code, stderr.String())
		}
	}
}

func TestInterruptedExitCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1234*time.Millisecond, cancel)
		start := time.Now()
		code, _, stderr := rrl(ctx, "demo")
		if code != 130 || stderr != "rrl: interrupted\n" {
			t.Errorf("code %d, printed\n%s", code, stderr)
		}
		if took := time.Since(start); took != 1234*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

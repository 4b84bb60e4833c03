package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// asRRL makes the test binary act as rrl with its arguments, as a process of its own.
const asRRL = "RRL_TEST_AS_RRL"

// asCounter makes the test binary count the interrupts that it gets.
const asCounter = "RRL_TEST_AS_COUNTER"

func TestMain(m *testing.M) {
	if os.Getenv(asCounter) != "" {
		countInterrupts()
	}
	if os.Getenv(asRRL) != "" {
		main()
	}
	// Under nohup, and in the background of a script, a process ignores these signals, and so do its
	// children. The children of one that catches them do not.
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	logging.Disable() // as main does
	redistest.VerifyNoLeaks(m)
}

// rrl runs a command line.
func rrl(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	return typed(ctx, "", args...)
}

// typed runs a command line with a text on stdin.
func typed(ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	return typedAt(ctx, place{}, stdin, args...)
}

// typedAt is typed at a place that is not reached by the network.
func typedAt(
	ctx context.Context, at place, stdin string, args ...string,
) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(stdin), stdout: &output{w: &out}, stderr: &errs, place: at}
	code = a.run(ctx, args)
	return code, out.String(), errs.String()
}

// program returns a command that runs rrl as a process of its own.
func program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asRRL+"=1")
	return cmd
}

// countInterrupts prints "ready" and a line for each interrupt, and ends with SIGTERM.
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

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"": "Available Commands:", "help": "Available Commands:", "--help": "Exit codes: 0 yes",
		"compare -h": "embedded in rrl", "version": "rrl ", "--version": "go1.",
		"completion bash": "__start_rrl",
	} {
		code, stdout, stderr := rrl(t.Context(), strings.Fields(args)...)
		if code != 0 || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("rrl %s: code %d, printed\n%s\n%s", args, code, stdout, stderr)
		}
	}
}

// says reports whether text contains part, or is empty like part.
func says(text, part string) bool {
	return strings.Contains(text, part) && (part != "" || text == "")
}

// rrl gives up a server that takes connections and never replies.
func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	silent := redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	start := time.Now()
	steps(t, silent.Addr().String(), step{"list", exitError, "", "cannot reach"})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestUnreadOutputIsAnError(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	for _, command := range []string{"help", "version", "compare"} {
		var stderr strings.Builder
		code := run(t.Context(), []string{command}, nil, w, &stderr)
		if code != exitError || stderr.Len() == 0 {
			t.Errorf("%s: code %d, printed %q", command, code, stderr.String())
		}
	}
}

// Ctrl-C ends a question with a no.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	steps(t, server.Addr, step{"set api 5 1h", 0, "set", ""})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin, never := io.Pipe()
	defer never.Close()
	asked, stderr := io.Pipe()
	code := make(chan int, 1)
	go func() {
		defer stderr.Close()
		code <- run(ctx, []string{"--redis", server.Addr, "delete", "api"}, stdin, io.Discard, stderr)
	}()
	var text strings.Builder
	for part := make([]byte, 1024); !strings.Contains(text.String(), "Type yes"); {
		n, err := asked.Read(part)
		if text.Write(part[:n]); err != nil {
			t.Fatalf("%v: %s", err, &text)
		}
	}
	cancel()
	_, _ = io.Copy(&text, asked)
	if got := <-code; got != exitInterrupted || !strings.Contains(text.String(), "\nrrl: interrupted\n") {
		t.Errorf("code %d, printed\n%s", got, &text)
	}
	steps(t, server.Addr, step{"acquire api", 0, "granted", ""})
}

// A step is a command line and its result.
type step struct {
	args           string // split at spaces
	code           int
	stdout, stderr string // parts of them; empty if nothing is printed
}

// on runs a command line against the Redis at an address.
func on(t *testing.T, address, args string) (code int, stdout, stderr string) {
	return rrl(t.Context(), append([]string{"--redis", address}, strings.Fields(args)...)...)
}

// steps runs command lines against the Redis at an address in turn.
func steps(t *testing.T, address string, list ...step) {
	t.Helper()
	for _, s := range list {
		code, stdout, stderr := on(t, address, s.args)
		stdout = regexp.MustCompile(`\s+`).ReplaceAllString(stdout, " ") // JSON in one line
		if code != s.code || !says(stdout, s.stdout) || !says(stderr, s.stderr) {
			t.Errorf("rrl %s: code %d, want %d, with %q on stdout and %q on stderr; printed\n%s\n%s",
				s.args, code, s.code, s.stdout, s.stderr, stdout, stderr)
		}
	}
}

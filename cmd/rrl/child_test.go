//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// fives returns a server with the limiter api of 5 permits.
func fives(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	steps(t, server, "", step{"set api 5 1h", 0, "set", ""})
	return server
}

// patience is far longer than anything here takes: it only ends tests that fail anyway.
const patience = time.Minute

// detached returns rrl as a process without a terminal, so that it is the same for people as in CI.
func detached(t *testing.T, server *redistest.Server, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd, stderr = program(ctx, append([]string{"--redis", server.Addr}, args...)...), new(bytes.Buffer)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its command
	return cmd, stderr
}

// code returns the exit code of a process that was run.
func code(t *testing.T, err error) int {
	t.Helper()
	failed, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	if err == nil {
		return 0
	}
	return failed.ExitCode()
}

// The exit code is that of the command. One that cannot run costs no permits.
func TestExitCodesOfACommand(t *testing.T) {
	t.Parallel()
	server := fives(t)
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"notes": 0o600, "broken": 0o700} {
		redistest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("\x7fELF: not really\n"), mode))
	}
	for _, c := range []struct {
		command string // split at |; DIR is the directory
		code    int
		stderr  string // what it contains
		left    string // the value, empty if nobody has taken permits
	}{
		{"sh|-c|true", 0, "granted", "3"},
		{"sh|-c|exit 7", 7, "granted", "3"},
		{"sh|-c|kill -TERM $$", 128 + 15, "granted", "3"},
		{"rrl-no-such-one", 127, `rrl: exec: "rrl-no-such-one": executable file not found in $PATH`, ""},
		{"DIR/nothing", 127, "no such file or directory", ""},
		{"DIR/notes", 126, "permission denied", ""},
		{"DIR/broken", 126, "rrl: the permits were given back: 2", "5"},
	} {
		args := append([]string{"acquire", "api", "-n", "2", "--"}, strings.Split(c.command, "|")...)
		for i, arg := range args {
			args[i] = strings.Replace(arg, "DIR", dir, 1)
		}
		cmd, stderr := detached(t, server, args...)
		stdout := new(bytes.Buffer)
		cmd.Stdout = stdout
		got := code(t, cmd.Run())
		if got != c.code || !strings.Contains(stderr.String(), c.stderr) || stdout.Len() > 0 {
			t.Errorf("%s: code %d, want %d; printed\n%s\n%s", c.command, got, c.code, stdout, stderr)
		}
		has(t, server, "api", c.left)
		steps(t, server, "", step{"set api 5 1h --yes", 0, "set", ""})
	}
}

// The command has the stdin and stdout of rrl; what rrl itself says is on stderr.
func TestStreamsOfACommand(t *testing.T) {
	t.Parallel()
	cmd, stderr := detached(t, fives(t), "acquire", "api", "--json", "--", "sh", "-c", "cat; echo oops >&2")
	cmd.Stdin = strings.NewReader("passed on\n")
	stdout, err := cmd.Output()
	if err != nil || string(stdout) != "passed on\n" {
		t.Errorf("%v, printed\n%s", err, stdout)
	}
	text := stderr.String()
	if !strings.Contains(text, `"granted": true`) || !strings.HasSuffix(text, "}\noops\n") {
		t.Errorf("stderr:\n%s", text)
	}
}

// A command runs only if its permits were granted.
func TestCommandDoesNotRun(t *testing.T) {
	t.Parallel()
	server := fives(t)
	run := func(args ...string) (int, string) {
		cmd, stderr := detached(t, server, append(args, "--", "sh", "-c", "echo ran")...)
		stdout, err := cmd.Output()
		if len(stdout) > 0 {
			t.Errorf("%q: it ran, and said %s", args, stdout)
		}
		return code(t, err), stderr.String()
	}
	steps(t, server, "", step{"acquire api -n 4", 0, "granted", ""})
	if code, stderr := run("acquire", "api", "-n", "2"); code != 1 || !strings.Contains(stderr, "refused") {
		t.Errorf("refused: code %d, %s", code, stderr)
	}
	code, stderr := run("acquire", "api", "-n", "2", "-q", "--refused-code", "75")
	if code != 75 || stderr != "" {
		t.Errorf("refused: code %d, %s", code, stderr)
	}
	if code, stderr := run("acquire", "nothing"); code != 2 || !strings.Contains(stderr, "set a rate first") {
		t.Errorf("no rate: code %d, %s", code, stderr)
	}
	server.Stop()
	if code, stderr := run("acquire", "api"); code != 2 || !strings.Contains(stderr, "cannot reach Redis") {
		t.Errorf("Redis is down: code %d, %s", code, stderr)
	}
}

// Signals that rrl gets reach the command, whose exit code is that of rrl.
func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for s, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT",
		syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	} {
		server := fives(t)
		const script = `for s in TERM INT HUP QUIT USR1 USR2; do trap "echo $s; exit 5" $s; done; echo ready
			while :; do sleep 0.05; done`
		cmd, stderr := detached(t, server, "acquire", "api", "--", "sh", "-c", script)
		stdout := redistest.Must(cmd.StdoutPipe())(t)
		redistest.NoError(t, cmd.Start())
		lines := bufio.NewReader(stdout)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v, %s", line, err, stderr)
		}
		redistest.NoError(t, cmd.Process.Signal(s))
		rest, _ := io.ReadAll(lines)
		if got := code(t, cmd.Wait()); got != 5 || string(rest) != name+"\n" {
			t.Errorf("%v: code %d, printed\n%s\n%s", s, got, rest, stderr)
		}
	}
}

// A signal that comes while permits are waited for ends that: the command does not run.
func TestInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	server := fives(t)
	steps(t, server, "", step{"acquire api -n 4", 0, "granted", ""})
	cmd, stderr := detached(t, server, "acquire", "api", "-n", "2", "--wait", "--", "sh", "-c", "echo ran")
	stdout := new(bytes.Buffer)
	cmd.Stdout = stdout
	redistest.NoError(t, cmd.Start())
	redistest.Until(t, "it waits", func() error {
		channels, err := server.Admin().PubSubChannels(t.Context(), "*").Result()
		if err == nil && len(channels) == 0 {
			err = errors.New("it has subscribed to nothing")
		}
		return err
	})
	redistest.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	if got := code(t, cmd.Wait()); got != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("code %d, printed\n%s\n%s", got, stdout, stderr)
	}
	has(t, server, "api", "1")
}

// A signal that comes with the grant keeps the command from running, and the permits go back.
func TestInterruptedBeforeItRuns(t *testing.T) {
	t.Parallel()
	server := fives(t)
	var stdout, stderr strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &output{w: &stdout}, stderr: &stderr}
	a.place.address = server.Addr
	q := &acquisition{permits: 2}
	c := redistest.Must(a.newChild([]string{"sh", "-c", "echo ran"}))(t)
	defer c.close()
	c.signals <- syscall.SIGTERM
	if err := a.acquireFor(t.Context(), "api", q, c); !errors.Is(err, exitCode(exitInterrupted)) {
		t.Errorf("%v", err)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "terminated: the command was not run") {
		t.Errorf("printed\n%s\n%s", &stdout, &stderr)
	}
	has(t, server, "api", "5")
}

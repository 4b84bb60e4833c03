//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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

// The exit code is that of the command, and the lock is given back in any case.
func TestExitCodesUnderALock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	broken := filepath.Join(t.TempDir(), "broken")
	redistest.NoError(t, os.WriteFile(broken, []byte("\x7fELF: not really\n"), 0o700))
	for _, c := range []struct {
		command []string
		code    int
		stderr  string // what it contains
	}{
		{[]string{"true"}, 0, "locked by"},
		{[]string{"sh", "-c", "exit 7"}, 7, "locked by"},
		{[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15, "locked by"},
		{[]string{"rrl-no-such-one"}, 127, "executable file not found in $PATH"},
		{[]string{broken}, 126, "exec format error"},
	} {
		cmd, stderr := detached(t, server, append([]string{"lock", "x", "--"}, c.command...)...)
		stdout := new(bytes.Buffer)
		cmd.Stdout = stdout
		got := code(t, cmd.Run())
		if got != c.code || !strings.Contains(stderr.String(), c.stderr) || stdout.Len() > 0 {
			t.Errorf("%q: code %d, want %d; printed\n%s\n%s", c.command, got, c.code, stdout, stderr)
		}
		if strings.Contains(stderr.String(), "not given back") {
			t.Errorf("%q: %s", c.command, stderr)
		}
		free(t, server, "x")
	}
}

// A command runs under its lock only, and has the token of a fenced one.
func TestCommandUnderALock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	last := time.Now().Add(-time.Hour).UnixMicro()
	for range 2 {
		const script = `cat; echo "$RRL_TOKEN"`
		cmd, _ := detached(t, server, "lock", "x", "--fenced", "-q", "--", "sh", "-c", script)
		cmd.Stdin = strings.NewReader("token ")
		stdout, err := cmd.Output()
		var token int64
		_, scan := fmt.Sscanf(string(stdout), "token %d\n", &token)
		if err != nil || scan != nil || token <= last {
			t.Errorf("%v, printed %q, want a token above %d", err, stdout, last)
		}
		last = token
	}
	h := held(t, server, "x")
	cmd, stderr := detached(t, server, "lock", "x", "--wait", "10ms", "--", "sh", "-c", "echo ran")
	stdout, err := cmd.Output()
	if got := code(t, err); got != 1 || len(stdout) > 0 || !strings.Contains(stderr.String(), "refused") {
		t.Errorf("refused: code %d, printed\n%s\n%s", got, stdout, stderr)
	}
	redistest.NoError(t, h.Unlock(t.Context()))
	server.Stop()
	cmd, stderr = detached(t, server, "lock", "x", "--", "sh", "-c", "echo ran")
	stdout, err = cmd.Output()
	got := code(t, err)
	if got != exitError || len(stdout) > 0 || !strings.Contains(stderr.String(), "cannot reach") {
		t.Errorf("Redis is down: code %d, printed\n%s\n%s", got, stdout, stderr)
	}
}

// started starts a command that says "ready", and returns what it says after that.
func started(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer) *bufio.Reader {
	t.Helper()
	stdout := redistest.Must(cmd.StdoutPipe())(t)
	redistest.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v, %s", line, err, stderr)
	}
	return lines
}

// A command whose lock is lost gets SIGTERM, and SIGKILL after the grace; the exit code says so, whatever the
// command returns.
func TestLostLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const loop = "echo ready; while :; do sleep 0.02; done"
	for _, c := range []struct {
		flags, script, stdout string
		code                  int
	}{
		{"", "trap 'echo TERM; exit 0' TERM; " + loop, "TERM\n", 3},
		{"--lost-code 75", "trap 'echo TERM; exit 5' TERM; " + loop, "TERM\n", 75},
		{"--grace 100ms", "trap '' TERM; " + loop, "", 3},
	} {
		name := redistest.Name(t) // the lease of another case may still run in Redis
		args := append(strings.Fields("lock "+name+" --lease 300ms "+c.flags), "--", "sh", "-c", c.script)
		cmd, stderr := detached(t, server, args...)
		rest, _ := io.ReadAll(started(t, cmd, stderr))
		got := code(t, cmd.Wait())
		text := stderr.String()
		if got != c.code || string(rest) != c.stdout || !strings.Contains(text, "the lock is lost") ||
			!strings.Contains(text, "its lease has run out") {
			t.Errorf("%q: code %d, printed\n%s\n%s", args, got, rest, stderr)
		}
	}
}

// A lock that was unlocked by force while the command ran was lost, also if the command is done
// before that is known.
func TestForcedWhileACommandRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd, stderr := detached(t, server, "lock", "x", "--", "sh", "-c", "echo ready; read line")
	stdin := redistest.Must(cmd.StdinPipe())(t)
	_ = started(t, cmd, stderr)
	steps(t, server, "", step{"unlock x --force --yes", 0, "unlocked", ""})
	if _, err := stdin.Write([]byte("go on\n")); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd.Wait()); got != exitLost || !strings.Contains(stderr.String(), "it was lost") {
		t.Errorf("code %d, printed\n%s", got, stderr)
	}
}

// Signals reach the command. The lock is held until that has ended, and then given back.
func TestSignalsUnderALock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		const script = `trap 'echo signal; read line; exit 5' TERM INT HUP QUIT; echo ready
			while :; do sleep 0.02; done`
		cmd, stderr := detached(t, server, "lock", "x", "--", "sh", "-c", script)
		stdin := redistest.Must(cmd.StdinPipe())(t)
		lines := started(t, cmd, stderr)
		redistest.NoError(t, cmd.Process.Signal(s))
		if line, err := lines.ReadString('\n'); line != "signal\n" {
			t.Fatalf("%v: %q, %v, %s", s, line, err, stderr)
		}
		if server.Admin().Exists(t.Context(), "x").Val() == 0 {
			t.Errorf("%v: the lock is free while the command runs", s)
		}
		if _, err := stdin.Write([]byte("end\n")); err != nil {
			t.Fatal(err)
		}
		if got := code(t, cmd.Wait()); got != 5 {
			t.Errorf("%v: code %d, printed\n%s", s, got, stderr)
		}
		free(t, server, "x")
	}
}

// A signal that comes while the lock is waited for ends that: the command does not run.
func TestLockInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	h := held(t, server, "x")
	cmd, stderr := detached(t, server, "lock", "x", "--", "sh", "-c", "echo ran")
	stdout := new(bytes.Buffer)
	cmd.Stdout = stdout
	redistest.NoError(t, cmd.Start())
	waitsFor(t, server, "x")
	redistest.NoError(t, cmd.Process.Signal(os.Interrupt))
	if got := code(t, cmd.Wait()); got != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("code %d, printed\n%s\n%s", got, stdout, stderr)
	}
	redistest.NoError(t, h.Unlock(t.Context()))
	free(t, server, "x")
}

// A signal that comes with the lock keeps the command from running, and the lock is given back.
func TestLockInterruptedBeforeItRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stdout, stderr strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &output{w: &stdout}, stderr: &stderr}
	a.place.address = server.Addr
	c := redistest.Must(a.newChild([]string{"sh", "-c", "echo ran"}))(t)
	defer c.close()
	c.signals <- syscall.SIGTERM
	err := a.lockFor(t.Context(), "x", &locking{forever: true}, c)
	if !errors.Is(err, exitCode(exitInterrupted)) || stdout.Len() > 0 {
		t.Errorf("%v, printed\n%s\n%s", err, &stdout, &stderr)
	}
	free(t, server, "x")
}

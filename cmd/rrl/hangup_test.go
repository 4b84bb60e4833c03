//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// startWaiter starts a command that waits for permits or a lock, and returns when it waits.
func startWaiter(t *testing.T, server *redistest.Server, cmd *exec.Cmd) {
	t.Helper()
	redistest.NoError(t, cmd.Start())
	redistest.Until(t, "it waits", func() error {
		channels, err := server.Admin().PubSubChannels(t.Context(), "*").Result()
		if err == nil && len(channels) == 0 {
			err = errors.New("it has subscribed to nothing")
		}
		return err
	})
}

// signalled sends a signal to a command that waits behind others before it runs echo.
func signalled(t *testing.T, s syscall.Signal, args string) (
	server *redistest.Server, cmd *exec.Cmd, stdout, stderr *bytes.Buffer,
) {
	t.Helper()
	server, stdout = fives(t), new(bytes.Buffer)
	steps(t, server, "",
		step{"acquire api -n 4", 0, "granted", ""}, step{"lock x --lease 1h", 0, "locked", ""})
	cmd, stderr = detached(t, server, append(strings.Fields(args), "--", "sh", "-c", "echo ran")...)
	cmd.Stdout = stdout
	startWaiter(t, server, cmd)
	redistest.NoError(t, cmd.Process.Signal(s))
	return server, cmd, stdout, stderr
}

// A signal that ends commands ends the wait for permits or for a lock: the command does not run, and
// nothing stays taken.
func TestSignalsThatEndTheWait(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM} {
		for _, args := range []string{"acquire api -n 2 --wait", "lock x"} {
			t.Run(s.String()+"/"+args, func(t *testing.T) {
				t.Parallel()
				server, cmd, stdout, stderr := signalled(t, s, args)
				if got := code(t, cmd.Wait()); got != exitInterrupted || stdout.Len() > 0 ||
					!strings.Contains(stderr.String(), "interrupted: the command was not run") {
					t.Errorf("code %d, printed\n%s\n%s", got, stdout, stderr)
				}
				has(t, server, "api", "1")
			})
		}
	}
}

// A signal for the command that comes before the command runs does not end the wait, and is dropped: it
// would end the command.
func TestSignalsThatDoNotEndTheWait(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		for args, frees := range map[string]step{
			"acquire api -n 2 --wait": {"release api 4", 0, "given back", ""},
			"lock x":                  {"unlock x --force --yes", 0, "unlocked", ""},
		} {
			t.Run(s.String()+"/"+args, func(t *testing.T) {
				t.Parallel()
				server, cmd, stdout, stderr := signalled(t, s, args)
				steps(t, server, "", frees)
				if got := code(t, cmd.Wait()); got != 0 || stdout.String() != "ran\n" {
					t.Errorf("code %d, printed\n%s\n%s", got, stdout, stderr)
				}
			})
		}
	}
}

// Under nohup SIGHUP ends neither the wait nor the command.
func TestHangupUnderNohup(t *testing.T) {
	t.Parallel()
	server := fives(t)
	steps(t, server, "", step{"acquire api -n 4", 0, "granted", ""})
	const script = `echo ready; read line; echo "$line"`
	cmd, stderr := detached(t, server, "acquire", "api", "-n", "2", "--wait", "--", "sh", "-c", script)
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	stdin := redistest.Must(cmd.StdinPipe())(t)
	stdout := redistest.Must(cmd.StdoutPipe())(t)
	startWaiter(t, server, cmd)
	hangUp := func() {
		redistest.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP))
	}
	hangUp()
	steps(t, server, "", step{"release api 4", 0, "given back", ""})
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v, %s", line, err, stderr)
	}
	hangUp()
	if _, err := stdin.Write([]byte("goes on\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); line != "goes on\n" {
		t.Errorf("%q, %v", line, err)
	}
	if got := code(t, cmd.Wait()); got != 0 {
		t.Errorf("code %d, %s", got, stderr)
	}
}

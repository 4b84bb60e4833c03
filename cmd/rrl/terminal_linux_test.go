package main

import (
	"bufio"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A terminal sends Ctrl-C to rrl and to the command: rrl does not send it once more.
func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	server := fives(t)
	for command, name := range map[string]string{"acquire": "api", "lock": "x"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			ctrlC(t, server, command, name)
		})
	}
}

// ctrlC runs a command of rrl with a name, and presses Ctrl-C while it runs another.
func ctrlC(t *testing.T, server *redistest.Server, command, name string) {
	t.Helper()
	keyboard, end, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer end.Close()
	cmd, stderr := detached(t, server, command, name, "--", "env", asCounter+"=1", os.Args[0])
	cmd.Stdin = end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	stdout := redistest.Must(cmd.StdoutPipe())(t)
	redistest.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	const times = 3
	for i, want := range []string{"ready\n", "interrupt\n", "interrupt\n", "interrupt\n"} {
		if line, err := lines.ReadString('\n'); line != want {
			t.Fatalf("%d: %q, %v, %s", i, line, err, stderr)
		}
		if i < times {
			if _, err := keyboard.WriteString("\x03"); err != nil {
				t.Fatal(err)
			}
		}
	}
	// SIGTERM is passed on, after all that may have been passed on before.
	redistest.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, _ := io.ReadAll(lines)
	if got := code(t, cmd.Wait()); got != 0 || len(rest) > 0 {
		t.Errorf("code %d, printed\n%s\n%s", got, rest, stderr)
	}
	if command == "lock" {
		free(t, server, name)
	}
}

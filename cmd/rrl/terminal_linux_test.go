package main

import (
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
	keyboard, end, err := pty.Open()
	redistest.NoError(t, err)
	defer keyboard.Close()
	defer end.Close()
	p := detachedArgs(t, fives(t), "acquire", "api", "--", "env", asCounter+"=1", os.Args[0])
	p.Stdin = end
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	_, lines := p.started()
	for range 3 {
		redistest.Must(keyboard.WriteString("\x03"))(t)
		if line, err := lines.ReadString('\n'); line != "interrupt\n" {
			t.Fatalf("%q, %v, %s", line, err, &p.stderr)
		}
	}
	p.signal(syscall.SIGTERM) // is passed on, after all that may have been passed on before
	if rest, _ := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("printed %s", rest)
	}
	p.ends(0, "")
}

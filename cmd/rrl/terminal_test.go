package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A terminal is rrl as a process, on a terminal that is emulated.
type terminal struct {
	t     *testing.T
	cmd   *exec.Cmd
	pty   *os.File
	ended chan struct{} // closed after all output was read

	mu     sync.Mutex
	screen vt10x.Terminal // guarded by mu, like all
	all    bytes.Buffer   // the output
}

// onTerminal starts rrl on a terminal, with additions to its environment.
func onTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	s := &terminal{t: t, cmd: program(ctx, args...), ended: make(chan struct{}), screen: vt10x.New()}
	s.cmd.Env = append(append(s.cmd.Env, "TERM=xterm-256color", "COLORTERM=", "NO_COLOR="), env...)
	var err error
	if s.pty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		b := make([]byte, 4096)
		for {
			n, err := s.pty.Read(b)
			s.mu.Lock()
			_, _ = s.screen.Write(b[:n])
			s.all.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel() // ends a process that still runs
		_ = s.cmd.Wait()
		_ = s.pty.Close()
		<-s.ended
	})
	return s
}

// has waits until the screen has a text.
func (s *terminal) has(text string) {
	s.t.Helper()
	redistest.Until(s.t, text, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if screen := s.screen.String(); !strings.Contains(screen, text) {
			return fmt.Errorf("not on the screen:\n%s", screen)
		}
		return nil
	})
}

func (s *terminal) presses(keys string) {
	s.t.Helper()
	redistest.Must(s.pty.WriteString(keys))(s.t)
}

func (s *terminal) resizes(columns, rows int) {
	s.t.Helper()
	s.mu.Lock()
	s.screen.Resize(columns, rows)
	s.mu.Unlock()
	redistest.NoError(s.t, pty.Setsize(s.pty, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}))
}

// ends waits for the process and returns its exit code and its output.
func (s *terminal) ends() (code int, all string) {
	s.t.Helper()
	err := s.cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		s.t.Fatal(err)
	}
	<-s.ended
	return s.cmd.ProcessState.ExitCode(), s.all.String()
}

// limited returns a server with a limiter, 7 of whose 10 permits remain.
func limited(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	steps(t, s.Addr, step{"set api 10 1h", 0, "set", ""}, step{"acquire api -n 3", 0, "granted", ""})
	return s
}

// restored checks that the terminal has left the alternate screen and shows its cursor.
func restored(t *testing.T, all string) {
	t.Helper()
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h"} {
		if !strings.Contains(all, on) || strings.LastIndex(all, off) < strings.LastIndex(all, on) {
			t.Errorf("%q is not undone by %q in\n%q", on, off, all)
		}
	}
}

// Limiters are shown live on the alternate screen. Keys scroll and pause it, and q restores the terminal.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	s := limited(t)
	term := onTerminal(t, nil, "watch", "--redis", s.Addr, "api", "gone", "other\x1b[2J")
	term.has("remaining 7 of 10")
	term.has(`"other\x1b[2J"`)
	term.resizes(40, 8)
	term.has("lines 1-6 of ")
	term.presses("G")
	term.has(`"other\x1b[2J"`)
	term.presses("p")
	term.has("paused")
	term.presses(" \x1b[5~\x1b[A")
	term.has("remaining 7 of 10")
	s.Stop()
	term.has("! Redis fails since ")
	term.presses("q")
	code, all := term.ends()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	restored(t, all)
	if !strings.Contains(all, "\x1b[32m") && !strings.Contains(all, ";32m") {
		t.Errorf("no green in\n%q", all)
	}
}

// Ctrl-C restores the terminal, and NO_COLOR turns the colours off.
func TestWatchWithoutColors(t *testing.T) {
	t.Parallel()
	s := limited(t)
	term := onTerminal(t, []string{"NO_COLOR=1"}, "watch", "--redis", s.Addr, "api")
	term.has("remaining 7 of 10")
	term.presses("\x03")
	code, all := term.ends()
	if code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	restored(t, all)
	if colour := regexp.MustCompile(`\x1b\[([0-9:]*;)*[349][0-8]\b[0-9;:]*m`).FindString(all); colour != "" {
		t.Errorf("colour %q", colour)
	}
}

// A terminal without cursor gets lines.
func TestWatchOnDumbTerminal(t *testing.T) {
	t.Parallel()
	s := limited(t)
	term := onTerminal(t, []string{"TERM=dumb"}, "watch", "--redis", s.Addr, "--count", "2", "api")
	code, all := term.ends()
	if code != 0 || strings.Contains(all, "\x1b") || strings.Count(all, "remaining 7 of 10") != 2 {
		t.Errorf("exit code %d, %q", code, all)
	}
}

// On a terminal the picture has colours, unless the environment forbids them.
func TestCompareOnATerminal(t *testing.T) {
	t.Parallel()
	for env, red := range map[string]bool{"A=": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		s := onTerminal(t, []string{env}, "compare", "--traffic", "edge")
		code, all := s.ends()
		if code != 0 {
			t.Fatalf("%s: code %d, printed\n%s", env, code, all)
		}
		if got := strings.Contains(all, "\x1b[31m"); got != red {
			t.Errorf("%s: red is %v, want %v", env, got, red)
		}
	}
}

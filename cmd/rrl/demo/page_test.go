package demo

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/creack/pty"
)

func TestColour(t *testing.T) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	t.Setenv("TERM", "xterm")
	for noColor, want := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", noColor)
		if got := newPage(terminal).colour; got != want {
			t.Errorf("with NO_COLOR=%q: %v", noColor, got)
		}
	}
	t.Setenv("NO_COLOR", "")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, w := range []io.Writer{io.Discard, null} {
		if newPage(w).colour {
			t.Errorf("colour in %v, which is no terminal", w)
		}
	}
	t.Setenv("TERM", "dumb")
	if newPage(terminal).colour {
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

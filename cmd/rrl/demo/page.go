package demo

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/charmbracelet/x/term"
)

// A page prints the demo. It keeps the first error, so that callers need not check
// each line but only the end.
type page struct {
	w      io.Writer
	colour bool
	err    error
}

func newPage(w io.Writer) *page { return &page{w: w, colour: colourful(w)} }

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// The colours of a terminal.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	faint  = "\x1b[2m"
	normal = "\x1b[0m"
)

// paint returns text in a colour, if the page shows colours.
func (p *page) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return colour + text + normal
}

// colourful reports whether w is a terminal that knows colours and is allowed
// to show them (https://no-color.org). Terminals of Windows may not know colours.
func colourful(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || runtime.GOOS == "windows" || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	return term.IsTerminal(f.Fd())
}

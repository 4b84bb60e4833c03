package main

import (
	"fmt"
	"os"

	"github.com/charmbracelet/x/term"
)

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// progress returns a function that shows the progress on stderr, in place of the line before, and one that
// erases the line. Both do nothing if stderr is no terminal.
func (a *app) progress() (show func(format string, args ...any), erase func()) {
	if !isTerminal(a.stderr) {
		return func(string, ...any) {}, func() {}
	}
	const line = "\r\x1b[K" // to the start of the line, which is erased
	show = func(format string, args ...any) { fmt.Fprintf(a.stderr, line+format, args...) }
	return show, func() { fmt.Fprint(a.stderr, line) }
}

// screen returns the columns of the terminal, or of a file, and whether it has colours.
func (a *app) screen() (columns int, colours bool) {
	const usual, least, most = 80, 40, 200
	file, ok := a.stdout.w.(*os.File)
	if !ok || !term.IsTerminal(file.Fd()) {
		return usual, false
	}
	columns, _, err := term.GetSize(file.Fd())
	if err != nil || columns == 0 {
		columns = usual
	}
	return min(max(columns, least), most), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

package main

import (
	"fmt"
	"os"

	"github.com/charmbracelet/x/term"
)

// isTerminal reports whether somebody sits at the other end of a reader or writer.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// progress returns what shows the progress on stderr, in place of what it showed before, and what
// removes it in the end. Both do nothing if stderr is no terminal.
func (a *app) progress() (show func(format string, args ...any), erase func()) {
	if !isTerminal(a.stderr) {
		return func(string, ...any) {}, func() {}
	}
	const line = "\r\x1b[K" // to the start of the line, which is erased
	show = func(format string, args ...any) { fmt.Fprintf(a.stderr, line+format, args...) }
	return show, func() { fmt.Fprint(a.stderr, line) }
}

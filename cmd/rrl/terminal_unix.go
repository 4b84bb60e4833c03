//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// ofTerminal reports whether this process runs in the foreground of a terminal. Then an
// interrupt is most likely the Ctrl-C that the terminal sends to all processes there, so that the
// command that rrl runs has it already.
func ofTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

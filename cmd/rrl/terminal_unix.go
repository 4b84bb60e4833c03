//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ofTerminal reports whether this process runs in the foreground of a terminal. Then an interrupt is most
// likely the Ctrl-C that the terminal sends to all processes there, including the command that rrl runs.
func ofTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// passedOn are the signals that rrl passes on to its command. By default each of them would end rrl, and the
// command would run on without its lock.
var passedOn = []os.Signal{
	os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// endWait are the signals that end the wait for permits or a lock.
var endWait = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// ofKeyboard reports whether a terminal sends a signal to all processes in its foreground when a key is
// pressed.
func ofKeyboard(s os.Signal) bool { return s == os.Interrupt || s == syscall.SIGQUIT }

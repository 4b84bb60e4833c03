//go:build !unix

package main

import (
	"os"
	"syscall"
)

// ofTerminal reports true: on Windows a console sends Ctrl-C to all its processes, and a process cannot send
// an interrupt.
func ofTerminal() bool { return true }

// passedOn are the signals that rrl passes on to its command.
var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM}

// endWait are the signals that end the wait for permits or a lock.
var endWait = passedOn

// ofKeyboard reports whether a console sends a signal to all processes when a key is pressed.
func ofKeyboard(s os.Signal) bool { return s == os.Interrupt }

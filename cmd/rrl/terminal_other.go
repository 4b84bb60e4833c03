//go:build !unix

package main

// ofTerminal reports true: on Windows a console sends Ctrl-C to all processes that it has, and
// a process can send an interrupt to none.
func ofTerminal() bool { return true }

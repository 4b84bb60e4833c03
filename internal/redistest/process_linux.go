package redistest

import "syscall"

// dieWithParent makes the kernel kill the child when this process ends in a way
// that runs no cleanup: a panic, the timeout of `go test`, SIGKILL.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing here: a server outlives a test binary that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }

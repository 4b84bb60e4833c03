//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing here: a server outlives a test binary that is killed,
// and has to be ended by hand.
func dieWithParent() *syscall.SysProcAttr { return nil }

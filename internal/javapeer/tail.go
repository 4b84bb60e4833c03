package javapeer

import "slices"

// tail keeps the end of what is written to it, for error messages. One goroutine
// uses it at a time: that of exec until Wait has returned, then that of serve.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const most = 4000 // enough for a stack trace of Java
	all := append(*t, b...)
	*t = slices.Delete(all, 0, max(0, len(all)-most))
	return len(b), nil
}

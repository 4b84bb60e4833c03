package javapeer

import "slices"

// tail keeps the end of what is written to it, for error messages. It is for
// one goroutine at a time: exec's until Wait has returned, then ours.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const most = 4000
	all := append(*t, b...)
	*t = slices.Delete(all, 0, max(0, len(all)-most))
	return len(b), nil
}

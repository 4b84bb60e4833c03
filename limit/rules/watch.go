package rules

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Watch reads a file again and again, and reloads the rules when it has changed. It returns
// when ctx has ended, with its error. every is at least 1 ms; otherwise, and if told is nil,
// the error is a limit.ErrInvalidArgument.
//
// It goes by the content, so that the way in which a file is exchanged does not matter:
// written in place, renamed, or by a link, as in a ConfigMap of Kubernetes. A change is
// applied when the file was the same twice, so that one which is being written is not
// taken for a shorter one. A pipe or a device is not read, which is an error.
//
// told is called for each change, with nil if it was applied. If the file cannot be read or
// has mistakes, told gets the error, once for each content, and the rules stay as they are.
func (r *Rules) Watch(ctx context.Context, file string, every time.Duration, told func(error)) error {
	switch {
	case every < time.Millisecond:
		return fmt.Errorf("%w: every is %v, must be at least 1ms", limit.ErrInvalidArgument, every)
	case told == nil:
		return fmt.Errorf("%w: told is nil", limit.ErrInvalidArgument)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	w := watcher{rules: r, file: file}
	for {
		if changed, err := w.look(); changed {
			told(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// A watcher knows what was read of a file.
type watcher struct {
	rules *Rules
	file  string
	last  string // what was read last: the sum of the content, or why there was none
	known string // what told knows of
}

// look reads the file, and applies what has changed. changed reports whether told must know.
func (w *watcher) look() (changed bool, err error) {
	data, err := w.read()
	now := ""
	if err != nil {
		now = err.Error()
	} else {
		sum := sha256.Sum256(data)
		now = string(sum[:])
	}
	settled := now == w.last
	w.last = now
	applied := err == nil && sha256.Sum256(data) == w.rules.current.Load().set.sum
	if applied {
		w.known = now
	}
	if !settled || now == w.known {
		return false, nil
	}
	w.known = now
	if err != nil {
		return true, err
	}
	set, err := Parse(data)
	if err != nil {
		return true, fmt.Errorf("%s: %w", w.file, err)
	}
	return true, w.rules.Reload(set)
}

// read returns the content, not much more than a file may have.
func (w *watcher) read() ([]byte, error) {
	info, err := os.Stat(w.file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe waits, and ctx does not end that
		return nil, fmt.Errorf("%w: %s is %v, must be a file", limit.ErrInvalidArgument, w.file, info.Mode())
	}
	f, err := os.Open(w.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostBytes+1))
}

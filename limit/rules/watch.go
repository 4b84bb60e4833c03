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

// Watch polls a file, and reloads the rules when it has changed. It returns the error of ctx when ctx
// has ended. every is at least 1 ms; otherwise, or if notify is nil, the error is a
// limit.ErrInvalidArgument.
//
// Watch compares the content, so it does not matter how a file is replaced: written in place, renamed, or
// through a link, as in a Kubernetes ConfigMap. It applies a change when it has read the same content
// twice, so a partly written file does not count. Pipes and devices are an error, and not read.
//
// Watch calls notify for each change, with nil if it was applied. If the file is unreadable or has
// mistakes, notify gets the error, once for each content, and the rules stay as they are.
func (r *Rules) Watch(ctx context.Context, file string, every time.Duration, notify func(error)) error {
	switch {
	case every < time.Millisecond:
		return fmt.Errorf("%w: every is %v, must be at least 1ms", limit.ErrInvalidArgument, every)
	case notify == nil:
		return fmt.Errorf("%w: notify is nil", limit.ErrInvalidArgument)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	w := watcher{rules: r, file: file}
	for {
		if due, err := w.look(); due {
			notify(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// A watcher compares the content of a file with the last reading.
type watcher struct {
	rules *Rules
	file  string
	last  string // the last reading: the hash of the content, or an error
	noted string // the last reading that notify was called for, or that was applied before
}

// look reads the file, and applies a change. due reports whether notify must be called.
func (w *watcher) look() (due bool, err error) {
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
		w.noted = now
	}
	if !settled || now == w.noted {
		return false, nil
	}
	w.noted = now
	if err != nil {
		return true, err
	}
	set, err := Parse(data)
	if err != nil {
		return true, fmt.Errorf("%s: %w", w.file, err)
	}
	return true, w.rules.Reload(set)
}

// read returns the content, up to a byte more than a file may have.
func (w *watcher) read() ([]byte, error) {
	info, err := os.Stat(w.file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block past the end of ctx
		return nil, fmt.Errorf("%w: %s is %v, must be a file", limit.ErrInvalidArgument, w.file, info.Mode())
	}
	f, err := os.Open(w.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostBytes+1))
}

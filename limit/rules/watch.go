package rules

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redisson-go/rratelimiter/internal/yamlfile"
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
	var data []byte
	yamlfile.Watch(ctx, every, func() (content string, err error) {
		data, err = read(file)
		return sumOf(data), err
	}, func() string { return r.current.Load().set.sum }, func(err error) {
		var set *Set
		if err == nil {
			if set, err = Parse(data); err != nil {
				err = fmt.Errorf("%s: %w", file, err)
			}
		}
		if err == nil {
			err = r.Reload(set)
		}
		notify(err)
	})
	return ctx.Err()
}

// read returns the content of a file, up to a byte more than a file may have.
func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block past the end of ctx
		return nil, fmt.Errorf("%w: %s is %v, must be a file", limit.ErrInvalidArgument, file, info.Mode())
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostBytes+1))
}

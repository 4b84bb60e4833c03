//go:build linux || darwin

package javapeer

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lockDir waits until no other process has locked dir, and locks it until the
// returned file is closed: `go test` runs one process per package. The lock is on
// the directory itself, so no file is left behind. The kernel releases it when the
// last process that has it open has ended.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = sleep(ctx, tick.C)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
	}
}

// sleep waits for the next tick, or returns the error of ctx if that ends first.
func sleep(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-tick:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

//go:build linux || darwin

package javapeer

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lockDir keeps other processes out of dir until what it returns is closed, and
// waits for those that do the same: `go test` runs one process per package. The
// lock is on the directory itself and leaves no file behind; the kernel takes it
// off when the last process that has it open has ended.
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

// sleep waits for the next tick, or answers the error of ctx if that ends first.
func sleep(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-tick:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

//go:build unix

package rules_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// To open a pipe waits until somebody writes, whatever becomes of the context.
func TestWatchDoesNotOpenAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "rules.yaml")
	redistest.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- inMemory(t, "rules: []").Watch(ctx, pipe, time.Millisecond, func(err error) { told <- err })
	}()
	const generous = 30 * time.Second
	select {
	case err := <-told:
		if !errors.Is(err, limit.ErrInvalidArgument) {
			t.Errorf("told %v, want ErrInvalidArgument", err)
		}
	case <-time.After(generous):
		t.Fatal("nobody is told")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returns %v, want Canceled", err)
	}
}

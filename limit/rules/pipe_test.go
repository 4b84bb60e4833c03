//go:build unix

package rules_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// To open a pipe waits for a writer, even beyond the end of the context.
func TestWatchDoesNotOpenAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "rules.yaml")
	redistest.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notified, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		r := inMemory(t, "rules: []")
		ended <- r.Watch(ctx, pipe, time.Millisecond, func(err error) { notified <- err })
	}()
	const generous = 30 * time.Second
	select {
	case err := <-notified:
		formtest.Fails(t, limit.ErrInvalidArgument, err)
	case <-time.After(generous):
		t.Fatal("no notification")
	}
	cancel()
	formtest.Fails(t, context.Canceled, <-ended)
}

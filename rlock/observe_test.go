package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A noted is an Observer that keeps what it is told, as texts.
type noted struct {
	mu  sync.Mutex
	all []string
}

func (n *noted) ObserveLock(_ context.Context, o rlock.Observation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf("%s ended %v, granted %v after %v, %v, held for %v, lost %v",
		o.Kind, o.Ended, o.Granted, o.Waited, o.Err, o.Held, o.Lost))
}

// An Observer is told how long each call waited and each hold lasted, and which were lost.
func TestObserver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		told := &noted{}
		locks, name := s.client(rlock.WithObserver(told)), redistest.Name(s)
		h := must(locks.FencedLock(name).LockFor(s.Context(), 3*time.Second))(s)
		_, ok, err := locks.FencedLock(name).TryLock(s.Context(), time.Second, 0)
		want(s, "granted", ok, false)
		noError(s, err)
		noError(s, h.Unlock(s.Context()))
		_ = must(locks.Lock(name).LockFor(s.Context(), time.Second))(s)
		ctx, cancel := context.WithTimeoutCause(s.Context(), 500*time.Millisecond, errors.New("enough"))
		defer cancel()
		if _, err := locks.Lock(name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Lock: %v", err)
		}
		time.Sleep(time.Minute)
		told.mu.Lock()
		defer told.mu.Unlock()
		for i, line := range []string{
			"fenced ended false, granted true after 0s, <nil>, held for 0s, lost false",
			"fenced ended false, granted false after 1s, <nil>, held for 0s, lost false",
			"fenced ended true, granted false after 0s, <nil>, held for 1s, lost false",
			"lock ended false, granted true after 0s, <nil>, held for 0s, lost false",
			"lock ended false, granted false after 500ms, context deadline exceeded, held for 0s, lost false",
			"lock ended true, granted false after 0s, <nil>, held for 1s, lost true",
		} {
			if i >= len(told.all) || told.all[i] != line {
				s.Fatalf("%d: told %q, want %q", i, told.all, line)
			}
		}
	})
}

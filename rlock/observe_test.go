package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A noted is an Observer that keeps observations as texts.
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

// An Observer gets how long each call waited and each hold lasted, and which holds were lost.
func TestObserver(t *testing.T) {
	inBubble(t, func(s *env) {
		seen := &noted{}
		locks, name := s.client(rlock.WithObserver(seen)), redistest.Name(s)
		h := must(locks.FencedLock(name).LockFor(s.Context(), 3*time.Second))(s)
		NoError(s, refusal(locks.FencedLock(name).TryLock(s.Context(), time.Second, 0)))
		synctest.Wait() // its subscription has ended, or the next lock would give way to it
		NoError(s, h.Unlock(s.Context()))
		_ = must(locks.Lock(name).LockFor(s.Context(), time.Second))(s)
		ctx, cancel := context.WithTimeoutCause(s.Context(), 500*time.Millisecond, errors.New("enough"))
		defer cancel()
		WantErr(s, ErrOf(locks.Lock(name).Lock(ctx)), context.DeadlineExceeded)
		time.Sleep(time.Minute)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for i, line := range []string{
			"fenced ended false, granted true after 0s, <nil>, held for 0s, lost false",
			"fenced ended false, granted false after 1s, <nil>, held for 0s, lost false",
			"fenced ended true, granted false after 0s, <nil>, held for 1s, lost false",
			"lock ended false, granted true after 0s, <nil>, held for 0s, lost false",
			"lock ended false, granted false after 500ms, context deadline exceeded, held for 0s, lost false",
			"lock ended true, granted false after 0s, <nil>, held for 1s, lost true",
		} {
			if i >= len(seen.all) || seen.all[i] != line {
				s.Fatalf("%d: observed %q, want %q", i, seen.all, line)
			}
		}
	})
}

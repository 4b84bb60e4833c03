package compat_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A rival is a caller that wants a lock, in one of the languages: a javaHolder or a
// goHolder.
type rival interface {
	String() string
	IsLocked(ctx context.Context) (bool, error)
	ForceUnlock(ctx context.Context) (bool, error)

	locks(ctx context.Context) // for an hour; once more if it has the lock
	tries(ctx context.Context, wait time.Duration) (bool, error)

	// waits begins to wait, without end or for some time. The function that it returns
	// expects the lock to be taken.
	waits(ctx context.Context, wait time.Duration) (gets func())

	unlocks(ctx context.Context)
	hasLost(ctx context.Context) // unlocks what it does not have any more
	field() string               // in the hash
	count(ctx context.Context) (int64, error)
	remains(ctx context.Context) (int64, error) // ms, -1 or -2
	lastToken(ctx context.Context) (int64, error)
	takesToken(ctx context.Context) int64 // with the lock
}

// endless is a wait without end.
const endless time.Duration = -1

func (h javaHolder) String() string { return "Java" }
func (h javaHolder) field() string  { return h.owner }

func (h javaHolder) tries(ctx context.Context, wait time.Duration) (bool, error) {
	return h.TryLockWait(ctx, h.thread, wait)
}

func (h javaHolder) waits(ctx context.Context, wait time.Duration) (gets func()) {
	if wait == endless {
		waits := h.StartLock(h.thread)
		return func() {
			GinkgoHelper()
			_, err := waits.Wait(ctx)
			done(err)
		}
	}
	waits := h.StartTryLock(h.thread, wait)
	return func() {
		GinkgoHelper()
		yes(waits.Wait(ctx))
	}
}

func (h javaHolder) hasLost(ctx context.Context) {
	GinkgoHelper()
	thrown(h.Unlock(ctx, h.thread), "java.lang.IllegalMonitorStateException",
		"attempt to unlock lock, not locked by current thread by node id: ")
}

func (h javaHolder) count(ctx context.Context) (int64, error)     { return h.HoldCount(ctx, h.thread) }
func (h javaHolder) remains(ctx context.Context) (int64, error)   { return h.RemainTimeToLive(ctx) }
func (h javaHolder) lastToken(ctx context.Context) (int64, error) { return h.Token(ctx) }

func (h javaHolder) takesToken(ctx context.Context) int64 {
	GinkgoHelper()
	token, err := h.LockAndGetToken(ctx, h.thread)
	done(err)
	return token
}

// A goLock is one of the locks of package rlock.
type goLock interface {
	Lock(ctx context.Context) (*rlock.Hold, error)
	LockFor(ctx context.Context, lease time.Duration) (*rlock.Hold, error)
	TryLock(ctx context.Context, wait, lease time.Duration) (*rlock.Hold, bool, error)
	ForceUnlock(ctx context.Context) (bool, error)
	IsLocked(ctx context.Context) (bool, error)
	RemainTimeToLive(ctx context.Context) (time.Duration, error)
}

// newGoLock returns a lock of a kind that both languages have.
func newGoLock(c *rlock.Client, kind javapeer.LockKind, name string) goLock {
	switch kind {
	case javapeer.Fenced:
		return c.FencedLock(name)
	case javapeer.Fair:
		return c.FairLock(name)
	}
	return c.Lock(name)
}

// A goHolder is a lock, and the last hold of it.
type goHolder struct {
	goLock
	hold *rlock.Hold
}

// goHolder returns a holder in a Client of its own, which shares what a Client for
// limiters has.
func (s *lockSubject) goHolder(kind javapeer.LockKind, opts ...rlock.Option) *goHolder {
	return &goHolder{goLock: newGoLock(rlock.New(s.gos[0].c, opts...), kind, s.name)}
}

func (h *goHolder) String() string { return "Go" }
func (h *goHolder) field() string  { return h.hold.Owner() }

func (h *goHolder) locks(ctx context.Context) {
	GinkgoHelper()
	if h.hold != nil && h.hold.Err() == nil {
		done(h.hold.Relock(ctx))
		return
	}
	var err error
	h.hold, err = h.LockFor(ctx, time.Hour)
	done(err)
}

func (h *goHolder) tries(ctx context.Context, wait time.Duration) (bool, error) {
	hold, ok, err := h.TryLock(ctx, wait, 0)
	if ok {
		h.hold = hold
	}
	return ok, err
}

func (h *goHolder) waits(ctx context.Context, wait time.Duration) (gets func()) {
	ended := make(chan error, 1)
	go func() {
		ok, err := true, error(nil)
		if wait == endless {
			h.hold, err = h.Lock(ctx)
		} else {
			ok, err = h.tries(ctx, wait)
		}
		if err == nil && !ok {
			err = errors.New("the wait is over")
		}
		ended <- err
	}()
	return func() {
		GinkgoHelper()
		done(<-ended)
	}
}

func (h *goHolder) unlocks(ctx context.Context) {
	GinkgoHelper()
	done(h.hold.Unlock(ctx))
}

func (h *goHolder) hasLost(ctx context.Context) {
	GinkgoHelper()
	Expect(h.hold.Unlock(ctx)).To(MatchError(rlock.ErrLost))
	Expect(context.Cause(h.hold.Context())).To(HaveOccurred())
}

func (h *goHolder) count(ctx context.Context) (int64, error) {
	if h.hold == nil {
		return 0, nil
	}
	return h.hold.HoldCount(ctx)
}

func (h *goHolder) remains(ctx context.Context) (int64, error) {
	d, err := h.RemainTimeToLive(ctx)
	if d == rlock.NoTimeToLive || d == rlock.NotLocked {
		return int64(d), err
	}
	return d.Milliseconds(), err
}

func (h *goHolder) lastToken(ctx context.Context) (int64, error) {
	lock, ok := h.goLock.(*rlock.FencedLock)
	Expect(ok).To(BeTrue(), "the kind of lock")
	return lock.LastToken(ctx)
}

func (h *goHolder) takesToken(ctx context.Context) int64 {
	GinkgoHelper()
	h.locks(ctx)
	return h.hold.Token()
}

// bothWays calls a spec with Go before Java, and Java before Go.
func (s *lockSubject) bothWays(ctx context.Context, kind javapeer.LockKind, spec func(first, second rival)) {
	j, g := s.holder(ctx, kind, s.javas[0].client), s.goHolder(kind)
	spec(g, j)
	spec(j, g)
}

// awaits waits until a caller waits for a message about the lock.
func (s *lockSubject) awaits(ctx context.Context, r rival) {
	GinkgoHelper()
	listens(ctx, s.keys.Channel, 1)
	if j, ok := r.(javaHolder); ok {
		s.waiting(ctx, j)
	}
}

// clientBeside returns a Client of Go with other options, for one spec.
func clientBeside(opts ...rratelimiter.Option) *rlock.Client {
	limiters := rratelimiter.New(server.Client(GinkgoT()), opts...)
	DeferCleanup(limiters.Close)
	return rlock.New(limiters)
}

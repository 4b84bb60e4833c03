package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// losses are ways to lose the reply to the next request that matches.
var losses = map[string]func(r *road, match func(args []string) bool, call func() error) error{
	"reply": func(r *road, match func([]string) bool, call func() error) error {
		r.proxy.SwallowReplyTo(1, match)
		return call()
	},
	"half a reply": func(r *road, _ func([]string) bool, call func() error) error {
		r.proxy.TearReply(1) // no other script runs in these specs
		return call()
	},
	"request": func(r *road, match func([]string) bool, call func() error) error {
		c := r.holds(match, call)
		r.proxy.Cut()
		err := comes(r, c.told)
		c.release()
		return err
	},
	"request for ever": func(r *road, match func([]string) bool, call func() error) error {
		c := r.holds(match, call)
		r.proxy.Cut()
		return comes(r, c.told)
	},
}

// eachLoss runs a spec for each loss, with a client that sends requests again, and one that
// sends each once. The spec makes a call by loses, which says what it returned.
func eachLoss(t *testing.T, spec func(l *loss)) {
	t.Helper()
	for what, lose := range losses {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sent again %v", what, again), func(t *testing.T) {
				t.Parallel()
				var mods []func(*redis.Options)
				if !again {
					mods = append(mods, sendsOnce)
				}
				spec(&loss{onRoad(t, mods...), again, lose})
			})
		}
	}
}

type loss struct {
	*road
	again bool
	lose  func(r *road, match func(args []string) bool, call func() error) error
}

// loses makes a call whose first reply is lost. A client that sends requests again does not
// notice. It reports whether the call was successful.
func (l *loss) loses(match func(args []string) bool, call func() error) bool {
	l.Helper()
	err := l.lose(l.road, match, call)
	if l.again {
		noError(l, err)
	} else if !errors.Is(err, rratelimiter.ErrNoAnswer) {
		l.Errorf("sent once: %v, want ErrNoAnswer", err)
	}
	return err == nil
}

// A Lock whose reply is lost holds the lock once, or not at all.
func TestLostLock(t *testing.T) {
	t.Parallel()
	eachLoss(t, func(l *loss) {
		ctx := within(l)
		var h *rlock.Hold
		if l.loses(isLock, func() (err error) {
			h, err = l.lock().Lock(ctx)
			return err
		}) {
			want(l, "count", must(h.HoldCount(ctx))(l), 1)
			noError(l, h.Unlock(ctx))
		}
		l.free(l.name)
	})
}

// A Relock whose reply is lost counts once, or not at all: as many unlocks are needed.
func TestLostRelock(t *testing.T) {
	t.Parallel()
	eachLoss(t, func(l *loss) {
		ctx := within(l)
		h := must(l.lock().Lock(ctx))(l)
		if l.loses(isLock, func() error { return h.Relock(ctx) }) {
			want(l, "count", must(h.HoldCount(ctx))(l), 2)
			noError(l, h.Unlock(ctx))
			want(l, "count after an unlock", must(h.HoldCount(ctx))(l), 1)
		}
		noError(l, h.Err())
		noError(l, h.Unlock(ctx))
		l.free(l.name)
	})
}

// An Unlock whose reply is lost lets go once. The hold goes on if it was not the last, and has
// ended if it was.
func TestLostUnlock(t *testing.T) {
	t.Parallel()
	eachLoss(t, func(l *loss) {
		ctx := within(l)
		h := must(l.lock().Lock(ctx))(l)
		noError(l, h.Relock(ctx))
		noError(l, h.Relock(ctx))
		if l.loses(isUnlock, func() error { return h.Unlock(ctx) }) {
			want(l, "count", must(h.HoldCount(ctx))(l), 2)
		}
		noError(l, h.Err())
		noError(l, h.Unlock(ctx))
		want(l, "count", must(h.HoldCount(ctx))(l), 1)
		l.loses(isUnlock, func() error { return h.Unlock(ctx) })
		if err := h.Unlock(ctx); !errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost) {
			l.Errorf("Unlock of what has ended: %v", err)
		}
		l.free(l.name)
		next := took(l.rival().TryLock(ctx, 0, 0))(l)
		noError(l, next.Unlock(ctx))
	})
}

// An Unlock that hands the lock on, and whose reply is lost, gives it to the next waiter once:
// by itself, or because the waiter asks.
func TestLostHandingOn(t *testing.T) {
	t.Parallel()
	eachLoss(t, func(l *loss) {
		ctx := within(l)
		h, heir := l.heir(ctx)
		l.loses(isUnlock, func() error { return h.Unlock(ctx) })
		next := comes(l, heir)
		owners := l.owners(l.name)
		want(l, "owners", len(owners), 1)
		want(l, "the waiter", owners[next.Owner()], "1")
		noError(l, next.Unlock(ctx))
		l.free(l.name)
	})
}

// A waiter leaves while the unlock is on its way that hands the lock on to it. The next one in
// line has the lock at once, whatever has become of the lock meanwhile.
func TestTheHeirHasLeft(t *testing.T) {
	t.Parallel()
	for what, meanwhile := range map[string]func(ctx context.Context, s *stage, name string) error{
		"handed on": func(context.Context, *stage, string) error { return nil },
		"deleted": func(ctx context.Context, s *stage, name string) error {
			return s.look.Del(ctx, name).Err()
		},
	} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, next one there before %v", what, early), func(t *testing.T) {
				inBubble(t, func(s *stage) {
					ctx, name := within(s), redistest.Name(s)
					h := must(s.locks.Lock(name).Lock(ctx))(s)
					freeze := frozen(s.rdb)
					leaving, leave := context.WithCancel(ctx)
					s.waits(leaving, name)
					next := make(<-chan *rlock.Hold)
					if early {
						next = s.waits(ctx, name)
					}
					thaw := freeze()
					unlocked := make(chan error, 1)
					go func() { unlocked <- h.Unlock(ctx) }()
					synctest.Wait()
					leave()
					synctest.Wait()
					noError(s, meanwhile(ctx, s, name))
					if !early {
						next = s.waits(ctx, name)
					}
					start := time.Now()
					thaw()
					held := comes(s, next)
					if waited := time.Since(start); waited > time.Second || held == nil {
						s.Fatalf("the next one has %v after %v", held, waited)
					}
					<-unlocked
					want(s, "the next one", s.owners(name)[held.Owner()], "1")
					noError(s, held.Unlock(ctx))
				})
			})
		}
	}
}

// waits starts a caller of Lock, and returns where its hold comes, nil after an error.
func (s *stage) waits(ctx context.Context, name string) <-chan *rlock.Hold {
	came := make(chan *rlock.Hold, 1)
	go func() {
		h, _ := s.locks.Lock(name).Lock(ctx)
		came <- h
	}()
	synctest.Wait()
	return came
}

// Replies of everything are lost again and again. Holders exclude one another, and nothing
// stays behind.
func TestRepliesLostAtRandom(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprintf("sent again %v", again), func(t *testing.T) {
			t.Parallel()
			var mods []func(*redis.Options)
			if !again {
				mods = append(mods, sendsOnce)
			}
			r := onRoad(t, mods...)
			ctx := within(t)
			var seen int
			r.proxy.SwallowReplyTo(-1, func(args []string) bool {
				if keysOf(args) != "" {
					seen++
				}
				return keysOf(args) != "" && seen%7 == 0
			})
			r.crowd(ctx, redistest.Rounds(t, 40))
			r.free(r.name)
			if r.proxy.Swallowed() == 0 {
				t.Error("no reply was lost")
			}
		})
	}
}

// crowd has callers of both processes hold the lock in turn, so often. Errors of the network
// are theirs to bear.
func (r *road) crowd(ctx context.Context, rounds int) {
	r.Helper()
	holders := make(chan struct{}, 1)
	done := make(chan struct{})
	locks := []*rlock.Lock{r.lock(), r.lock(), r.lock(), r.rival(), r.rival()}
	for _, lock := range locks {
		go func() {
			defer func() { done <- struct{}{} }()
			for range rounds {
				h, err := lock.Lock(ctx)
				if errors.Is(err, rratelimiter.ErrNoAnswer) {
					continue
				}
				if err != nil {
					r.Error(err)
					return
				}
				r.alone(holders)
				if err := h.Unlock(ctx); err != nil && !errors.Is(err, rratelimiter.ErrNoAnswer) {
					r.Error(err)
				}
			}
		}()
	}
	for range locks {
		<-done
	}
}

// A lock that the user may not use any more is lost, and takes no others with it that are renewed
// in the same script call.
func TestRenewalBesideALockThatIsDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	acl := func(rules ...string) {
		args := append([]string{"ACL", "SETUSER", "app"}, rules...)
		noError(t, server.Admin().Do(t.Context(), boxed(args)...).Err())
	}
	acl("on", "nopass", "allkeys", "allchannels", "+@all")
	s := newStage(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "any" }),
		server.Admin())
	ctx := within(t)
	locks := s.client(rlock.WithWatchdogTimeout(3 * time.Second))
	denied := must(locks.Lock("denied").Lock(ctx))(t)
	const others = 9 // ten share a script call
	var holds []*rlock.Hold
	for i := range others {
		holds = append(holds, must(locks.Lock(fmt.Sprintf("allowed:%d", i)).Lock(ctx))(t))
	}
	acl("resetkeys", "~allowed:*", "~redisson_*")
	select {
	case <-denied.Context().Done():
	case <-time.After(patience):
		t.Fatal("it is held for ever")
	}
	for _, h := range holds {
		noError(t, h.Err())
		noError(t, h.Unlock(ctx))
	}
}

// A Client is closed while an Unlock hands its lock on to a caller of the same process. That one has
// left, so others have the lock at once, not when the lease is over.
func TestCloseWhileTheLockIsHandedOn(t *testing.T) {
	t.Parallel()
	r := onRoad(t)
	ctx := within(t)
	limiters := rratelimiter.New(r.rdb)
	lock := rlock.New(limiters).Lock(r.name)
	h := must(lock.Lock(ctx))(t)
	before := r.scripts()
	heir := make(chan error, 1)
	go func() {
		_, err := lock.Lock(ctx)
		heir <- err
	}()
	r.ran(before, 2) // it sleeps, or is about to
	c := r.holds(isUnlock, func() error { return h.Unlock(ctx) })
	closed := make(chan error, 1)
	go func() { closed <- limiters.Close() }()
	for _, told := range []chan error{heir, c.told} {
		if err := comes(t, told); !errors.Is(err, rratelimiter.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
	c.arrives()
	noError(t, comes(t, closed))
	r.free(r.name)
}

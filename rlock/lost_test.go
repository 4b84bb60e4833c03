package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// losses are ways to lose the reply to the next request that matches.
var losses = map[string]func(r *proxied, match func(args []string) bool, call func() error) error{
	"reply": func(r *proxied, match func([]string) bool, call func() error) error {
		r.proxy.SwallowReplyTo(1, match)
		return call()
	},
	"half a reply": func(r *proxied, _ func([]string) bool, call func() error) error {
		r.proxy.TearReply(1) // no other script runs in these specs
		return call()
	},
	"request": func(r *proxied, match func([]string) bool, call func() error) error {
		c := r.holds(match, call)
		r.proxy.Cut()
		err := comes(r, c.result)
		c.arrives() // before the next call, which it would undo in part
		return err
	},
	"request for ever": func(r *proxied, match func([]string) bool, call func() error) error {
		c := r.holds(match, call)
		r.proxy.Cut()
		return comes(r, c.result)
	},
}

// eachLoss runs a spec for each loss, with a client that sends requests again, and one that sends each
// once. The spec makes a call by loses, which says what it returned.
func eachLoss(t *testing.T, spec func(l *loss)) {
	t.Helper()
	t.Parallel()
	for what, lose := range losses {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sent again %v", what, again), func(t *testing.T) {
				var mods []func(*redis.Options)
				if !again {
					mods = append(mods, sendsOnce)
				}
				spec(&loss{viaProxy(t, mods...), again, lose})
			})
		}
	}
}

type loss struct {
	*proxied
	again bool
	lose  func(r *proxied, match func(args []string) bool, call func() error) error
}

// loses makes a call whose first reply is lost. A client that sends requests again does not notice. It
// reports whether the call was successful.
func (l *loss) loses(match func(args []string) bool, call func() error) bool {
	l.Helper()
	err := l.lose(l.proxied, match, call)
	if l.again {
		noError(l, err)
	} else {
		wantErr(l, "sent once", err, rratelimiter.ErrNoAnswer)
	}
	return err == nil
}

// A Lock whose reply is lost holds the lock once, or not at all.
func TestLostLock(t *testing.T) {
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

// An Unlock whose reply is lost unlocks once. The hold goes on if it was not the last, and has ended if it
// was.
func TestLostUnlock(t *testing.T) {
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
		wantEnded(l, "Unlock of what has ended", h.Unlock(ctx))
		l.free(l.name)
		noError(l, took(l.rival().TryLock(ctx, 0, 0))(l).Unlock(ctx))
	})
}

// An Unlock that hands the lock on, and whose reply is lost, gives it to the next waiter once: by the
// reply, or because the waiter asks.
func TestLostHandOver(t *testing.T) {
	eachLoss(t, func(l *loss) {
		ctx := within(l)
		h, successor := l.successor(ctx)
		l.loses(isUnlock, func() error { return h.Unlock(ctx) })
		next := comes(l, successor)
		owners := l.owners(l.name)
		want(l, "owners", len(owners), 1)
		want(l, "the waiter", owners[next.Owner()], "1")
		noError(l, next.Unlock(ctx))
		l.free(l.name)
	})
}

// A waiter leaves while the unlock is on its way that hands the lock on to it. The next one in line gets
// the lock at once, even if the lock was deleted meanwhile.
func TestNextWaiterGetsTheLockIfTheSuccessorHasLeft(t *testing.T) {
	t.Parallel()
	for what, meanwhile := range map[string]func(ctx context.Context, s *env, name string) error{
		"handed on": func(context.Context, *env, string) error { return nil },
		"deleted": func(ctx context.Context, s *env, name string) error {
			return s.look.Del(ctx, name).Err()
		},
	} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, next one there before %v", what, early), func(t *testing.T) {
				inBubble(t, func(s *env) {
					ctx, name := within(s), redistest.Name(s)
					h := must(s.locks.Lock(name).Lock(ctx))(s)
					freeze := frozen(s.rdb)
					leaving, leave := context.WithCancel(ctx)
					s.waits(leaving, s.locks.Lock(name))
					next := make(<-chan *rlock.Hold)
					if early {
						next = s.waits(ctx, s.locks.Lock(name))
					}
					thaw := freeze()
					unlocked := async(func() error { return h.Unlock(ctx) })
					synctest.Wait()
					leave()
					synctest.Wait()
					noError(s, meanwhile(ctx, s, name))
					if !early {
						next = s.waits(ctx, s.locks.Lock(name))
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

// A lock that the user may not use any more is lost, and takes no others with it that are renewed in the
// same script call.
func TestRenewalSurvivesADeniedNeighbour(t *testing.T) {
	s := onRights(t, "allkeys", "allchannels", "+@all")
	ctx := within(t)
	locks := s.client(rlock.WithWatchdogTimeout(3 * time.Second))
	denied := must(locks.Lock("denied").Lock(ctx))(t)
	const others = 9 // ten share a script call
	var holds []*rlock.Hold
	for i := range others {
		holds = append(holds, must(locks.Lock(fmt.Sprintf("allowed:%d", i)).Lock(ctx))(t))
	}
	s.allow("~allowed:*", "~redisson_*", "allchannels", "+@all")
	comes(t, denied.Context().Done())
	for _, h := range holds {
		noError(t, h.Err())
		noError(t, h.Unlock(ctx))
	}
}

// A Client is closed while an Unlock hands its lock on to a caller of the same process. That one has left,
// so other processes get the lock at once, not when the lease has ended.
func TestCloseWhileTheLockIsHandedOn(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	locks, end := open(r, r.rdb)
	lock := locks.Lock(r.name)
	h := must(lock.Lock(ctx))(t)
	before := r.scripts()
	successor := async(func() error { return errOf(lock.Lock(ctx)) })
	r.ran(before, 2) // it sleeps, or is about to
	c := r.holds(isUnlock, func() error { return h.Unlock(ctx) })
	closed := async(end)
	for _, result := range []<-chan error{successor, c.result} {
		wantErr(t, "a call of a closed Client", comes(t, result), rratelimiter.ErrClosed)
	}
	c.arrives()
	noError(t, comes(t, closed))
	r.free(r.name)
}

// The reply to a Relock comes when the lease has ended by the clock of the process. The hold is lost, and the
// new lease is given back.
func TestARelockThatIsAnsweredAfterTheLeaseIsUndone(t *testing.T) {
	inBubble(t, func(s *env) {
		name := redistest.Name(s)
		h := must(s.locks.Lock(name).LockFor(s.Context(), 5*time.Second))(s)
		time.Sleep(4 * time.Second)
		s.rdb.AddHook(lateReplies(2 * time.Second))
		wantErr(s, "Relock", h.Relock(s.Context()), rlock.ErrLost)
		time.Sleep(time.Millisecond)
		want(s, "owners", len(s.owners(name)), 0) // 3 s before the new lease ends
	})
}

// lateReplies is how late a client gets the replies to its scripts.
type lateReplies time.Duration

func (lateReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d lateReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" {
			time.Sleep(time.Duration(d))
		}
		return err
	}
}

func (lateReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// An Unlock that Redis refuses is carried out when Redis does what it is asked again, long before the lease
// expires.
func TestUnlockIsRepeatedAfterARefusal(t *testing.T) {
	r := viaProxy(t)
	ctx := within(t)
	h := must(r.lock().Lock(ctx))(t)
	noError(t, r.look.Do(ctx, "ACL", "SETUSER", "default", "-evalsha").Err())
	if err := h.Unlock(ctx); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("Unlock: %v, want NOPERM", err)
	}
	redistest.Eventually(t, "another attempt", func() bool {
		stats := must(r.look.Info(ctx, "commandstats").Result())(t)
		_, script, _ := strings.Cut(stats, "cmdstat_evalsha:")
		_, refused, _ := strings.Cut(script, "rejected_calls=")
		return refused != "" && refused[0] >= '2'
	})
	noError(t, r.look.Do(ctx, "ACL", "SETUSER", "default", "+evalsha").Err())
	start := time.Now()
	redistest.Eventually(t, "the end of the hold", func() bool {
		return must(r.look.Exists(ctx, r.name).Result())(t) == 0
	})
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("it took %v, and the lease is 30 s", took)
	}
}

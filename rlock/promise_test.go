package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// TryLock returns at the end of its wait, and Lock at that of its context, to the moment, in whatever state
// Redis is. Locks that Redis grants them later are given back.
func TestCallsReturnByTheirTimeout(t *testing.T) {
	const wait = 1234 * time.Millisecond
	calls := map[string]func(ctx context.Context, l locker) error{
		"TryLock": func(ctx context.Context, l locker) error {
			return refusal(l.TryLock(ctx, wait, 0))
		},
		"TryLock once": func(ctx context.Context, l locker) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			_, ok, err := l.TryLock(ctx, 0, 0)
			return ended(ok, err, context.DeadlineExceeded)
		},
		"Lock": func(ctx context.Context, l locker) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			h, err := l.Lock(ctx)
			return ended(h != nil, err, context.DeadlineExceeded)
		},
		"LockFor": func(ctx context.Context, l locker) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(wait, cancel)
			h, err := l.LockFor(ctx, time.Hour)
			return ended(h != nil, err, context.Canceled)
		},
	}
	states := map[string]func(s *env, freeze func() func()) (thaw func()){
		"frozen": func(_ *env, freeze func() func()) func() { return freeze() },
		"frozen while it waits": func(_ *env, freeze func() func()) func() {
			thaw := make(chan func(), 1)
			time.AfterFunc(wait/2, func() { thaw <- freeze() })
			return func() { (<-thaw)() }
		},
		"held": func(*env, func() func()) func() { return func() {} },
	}
	eachKind(t, func(t *testing.T, of kind) {
		for what, call := range calls {
			for state, begin := range states {
				if what == "TryLock once" && state != "frozen" {
					continue // it does not wait for the lock
				}
				t.Run(what+", "+state, func(t *testing.T) {
					inBubble(t, func(s *env) {
						ctx, lock := within(s), of(s.locks, redistest.Name(s))
						var h *rlock.Hold
						if state != "frozen" {
							h = must(lock.Lock(ctx))(s)
						}
						thaw := begin(s, frozen(s.rdb))
						start := time.Now()
						err := call(ctx, lock)
						if what == "TryLock" && state == "frozen" {
							unanswered(s, nil, false, err)
						} else {
							noError(s, err)
						}
						want(s, "time", time.Since(start), wait)
						thaw()
						if h != nil {
							noError(s, h.Unlock(ctx))
						}
						synctest.Wait()
						want(s, "owners", len(s.owners(lock.Name())), 0)
					})
				})
			}
		}
	})
}

// ended returns nil if a call returned the end of its context, and holds nothing.
func ended(held bool, err, why error) error {
	if held || !errors.Is(err, why) {
		return fmt.Errorf("held %v, %w; want %w", held, err, why)
	}
	return nil
}

// A stopped server, or one whose replies are delayed, delays no caller beyond its wait. A lock granted
// meanwhile is given back.
func TestCallersLeaveASilentServerInTime(t *testing.T) {
	t.Parallel()
	const wait = 200 * time.Millisecond
	for what, silence := range map[string]func(r *proxied) (end func()){
		"stopped, in the caller's goroutine": func(r *proxied) func() { return r.server.Freeze(r) },
		"stopped":                            func(r *proxied) func() { return r.server.Freeze(r) },
		"requests":                           func(r *proxied) func() { return r.proxy.Hold() },
		"late replies": func(r *proxied) func() {
			r.proxy.Delay(time.Second)
			return func() { r.proxy.Delay(0) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			// Left to go-redis it would take minutes.
			r := viaProxy(t, func(o *redis.Options) {
				o.ReadTimeout, o.ContextTimeoutEnabled = 5*time.Minute, strings.Contains(what, "caller's")
			})
			end := silence(r)
			start := time.Now()
			h, ok, err := r.lock().TryLock(t.Context(), wait, 0)
			unanswered(t, h, ok, err)
			lasted(t, "TryLock", time.Since(start), wait, patience)
			end()
			noError(t, pass(within(t), r.rival()))
			r.free(r.name)
		})
	}
}

// An Unlock whose context has ended unlocks anyway.
func TestUnlockWithAnEndedContext(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := within(s), redistest.Name(s)
		freeze := frozen(s.rdb)
		over, cancel := context.WithCancel(ctx)
		cancel()
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		if err := h.Unlock(over); err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("%v", err)
		}
		synctest.Wait()
		want(s, "owners after an Unlock with an ended context", len(s.owners(name)), 0)

		h = must(s.locks.Lock(name).Lock(ctx))(s)
		thaw := freeze()
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		start := time.Now()
		wantErr(s, "Unlock of a frozen server", h.Unlock(soon), context.DeadlineExceeded)
		want(s, "time", time.Since(start), time.Second)
		want(s, "cause", context.Cause(h.Context()), context.Canceled)
		thaw()
		synctest.Wait()
		want(s, "owners after the thaw", len(s.owners(name)), 0)
	})
}

// The waits of many callers end together, with few connections, before Redis replies. No caller gets a
// network error.
func TestManyTimeoutsAtOnce(t *testing.T) {
	r := viaProxy(t, func(o *redis.Options) { o.PoolSize, o.ReadTimeout = 1, 5*time.Minute })
	release := r.proxy.Hold()
	var all sync.WaitGroup
	for i := range 300 {
		name := r.name
		if i%2 == 0 {
			name = fmt.Sprint(name, i) // one in line, one alone
		}
		all.Go(func() {
			h, ok, err := r.locks.Lock(name).TryLock(t.Context(), 20*time.Millisecond, 0)
			// Some come late to a line whose first has been asking for long.
			silent := err != nil && strings.HasSuffix(err.Error(), "ms, when the wait ended")
			if h != nil || ok || err != nil && !silent {
				t.Errorf("%v, %v, %v; want no hold, and no error of the network", h, ok, err)
			}
		})
	}
	all.Wait()
	release()
	r.free(r.name)
}

// The time of all in a line has ended at the same moment, which is when the one behind the first is to ask.
func TestWaitsOfALineEndTogether(t *testing.T) {
	inBubble(t, func(s *env) {
		thaw := frozen(s.rdb)()
		name := redistest.Name(s)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				h, ok, err := s.locks.Lock(name).TryLock(s.Context(), time.Second, 0)
				unanswered(s, h, ok, err)
			})
		}
		all.Wait()
		thaw()
	})
}

// Thousands wait for a lock and leave: because their time has ended or their context, before Redis is
// frozen and after. Each leaves on time, and then nothing is left.
func TestManyWaitersLeaveInTime(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, name := within(s), redistest.Name(s)
		freeze := frozen(s.rdb)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		var wrong atomic.Int64
		calls := s.count()
		var all sync.WaitGroup
		for i := range 10_000 {
			wait := time.Duration(1+i%4) * time.Second
			all.Go(func() {
				start := time.Now()
				var ok bool
				var err error
				if i%3 == 0 {
					ctx, cancel := context.WithTimeout(ctx, wait)
					defer cancel()
					_, err = s.locks.Lock(name).Lock(ctx)
					err = ended(false, err, context.DeadlineExceeded)
				} else {
					_, ok, err = s.locks.Lock(name).TryLock(ctx, wait, 0)
				}
				if ok || err != nil || time.Since(start) != wait {
					wrong.Add(1)
				}
			})
		}
		time.Sleep(2500 * time.Millisecond)
		thaw := freeze()
		all.Wait()
		want(s, "callers that left late, or with something", wrong.Load(), 0)
		if n := calls.Load(); n > 100 {
			s.Errorf("%d requests for callers of whom only the first asks", n)
		}
		thaw()
		noError(s, h.Unlock(ctx))
		synctest.Wait()
		want(s, "owners", len(s.owners(name)), 0)
		took(s.locks.Lock(name).TryLock(ctx, 0, time.Second))(s)
	})
}

// Those that wait in a process are served in the order in which they came.
func TestFirstComeFirstServed(t *testing.T) {
	inBubble(t, func(s *env) {
		ctx, lock := within(s), s.locks.Lock(redistest.Name(s))
		h := must(lock.Lock(ctx))(s)
		turns := make([]<-chan *rlock.Hold, 50)
		for i := range turns {
			turns[i] = s.waits(ctx, lock)
		}
		for _, next := range turns {
			noError(s, h.Unlock(ctx))
			h = comes(s, next)
		}
		noError(s, h.Unlock(ctx))
	})
}

// Close ends those that wait, and the contexts of holds, with ErrClosed; then nothing is renewed, and the
// lock ends with its lease. Also where Redis does not reply.
func TestClose(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			inBubble(t, func(s *env) {
				ctx, name := within(s), redistest.Name(s)
				locks, end := open(s, s.rdb)
				freeze := frozen(s.rdb)
				renewed := must(locks.Lock(name).Lock(ctx))(s)
				leased := must(locks.Lock(name+"2").LockFor(ctx, time.Hour))(s)
				var waiters [2]<-chan error
				for i := range waiters {
					waiters[i] = async(func() error { return errOf(locks.Lock(name).Lock(ctx)) })
					synctest.Wait()
				}
				thaw := func() {}
				if silent {
					thaw = freeze()
					go func() { _ = renewed.Relock(ctx) }()
					synctest.Wait()
				}
				noError(s, end())
				for _, waiter := range waiters {
					wantErr(s, "a waiter", comes(s, waiter), rratelimiter.ErrClosed)
				}
				synctest.Wait()
				for what, h := range map[string]*rlock.Hold{"renewed": renewed, "leased": leased} {
					want(s, what, context.Cause(h.Context()), rratelimiter.ErrClosed)
					want(s, what, h.Unlock(ctx), rratelimiter.ErrClosed)
					want(s, what, h.Relock(ctx), rratelimiter.ErrClosed)
				}
				_, _, err := locks.Lock(name).TryLock(ctx, time.Minute, 0)
				want(s, "TryLock", err, rratelimiter.ErrClosed)
				thaw()
				time.Sleep(31 * time.Second)
				want(s, "owners when its lease has ended", len(s.owners(name)), 0)
			})
		})
	}
}

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

// TryLock returns at the end of its wait, and Lock at that of its context, to the moment, in
// whatever state Redis is. What Redis grants them later is given back.
func TestATimeoutIsAPromise(t *testing.T) {
	t.Parallel()
	const wait = 1234 * time.Millisecond
	calls := map[string]func(ctx context.Context, l *rlock.Lock) error{
		"TryLock": func(ctx context.Context, l *rlock.Lock) error {
			h, ok, err := l.TryLock(ctx, wait, 0)
			if h != nil || ok {
				return errors.New("it holds the lock")
			}
			return err
		},
		"TryLock once": func(ctx context.Context, l *rlock.Lock) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			_, ok, err := l.TryLock(ctx, 0, 0)
			return ended(ok, err, context.DeadlineExceeded)
		},
		"Lock": func(ctx context.Context, l *rlock.Lock) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			h, err := l.Lock(ctx)
			return ended(h != nil, err, context.DeadlineExceeded)
		},
		"LockFor": func(ctx context.Context, l *rlock.Lock) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(wait, cancel)
			h, err := l.LockFor(ctx, time.Hour)
			return ended(h != nil, err, context.Canceled)
		},
	}
	states := map[string]func(s *stage, freeze func() func()) (thaw func()){
		"frozen": func(_ *stage, freeze func() func()) func() { return freeze() },
		"frozen while it waits": func(_ *stage, freeze func() func()) func() {
			thaw := make(chan func(), 1)
			time.AfterFunc(wait/2, func() { thaw <- freeze() })
			return func() { (<-thaw)() }
		},
		"held": func(*stage, func() func()) func() { return func() {} },
	}
	for what, call := range calls {
		for state, begin := range states {
			if what == "TryLock once" && state != "frozen" {
				continue // it does not wait for the lock
			}
			t.Run(what+", "+state, func(t *testing.T) {
				inBubble(t, func(s *stage) {
					ctx, name := within(s), redistest.Name(s)
					var h *rlock.Hold
					if state != "frozen" {
						h = must(s.locks.Lock(name).Lock(ctx))(s)
					}
					thaw := begin(s, frozen(s.rdb))
					start := time.Now()
					err := call(ctx, s.locks.Lock(name))
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
					want(s, "owners", len(s.owners(name)), 0)
				})
			})
		}
	}
}

// ended returns nil if a call was told that its context has ended, and holds nothing.
func ended(held bool, err, why error) error {
	if held || !errors.Is(err, why) {
		return fmt.Errorf("held %v, %w; want %w", held, err, why)
	}
	return nil
}

// A stopped server, and one whose replies are held on the way, keep nobody longer than it
// wants to wait. What was granted meanwhile is given back.
func TestAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	const wait = 200 * time.Millisecond
	for what, silence := range map[string]func(r *road) (end func()){
		"stopped":  func(r *road) func() { return r.server.Freeze(r) },
		"requests": func(r *road) func() { return r.proxy.Hold() },
		"late replies": func(r *road) func() {
			r.proxy.Delay(time.Second)
			return func() { r.proxy.Delay(0) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			// Left to go-redis it would take minutes.
			r := onRoad(t, func(o *redis.Options) { o.ReadTimeout = 5 * time.Minute })
			end := silence(r)
			start := time.Now()
			h, ok, err := r.lock().TryLock(t.Context(), wait, 0)
			unanswered(t, h, ok, err)
			if took := time.Since(start); took < wait || took > patience {
				t.Errorf("TryLock for %v took %v", wait, took)
			}
			end()
			other := must(r.rival().Lock(within(t)))(t)
			noError(t, other.Unlock(t.Context()))
			r.free(r.name)
		})
	}
}

// An Unlock whose context has ended unlocks all the same.
func TestUnlockWithAnEndedContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
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
		if err := h.Unlock(soon); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Unlock of a frozen server: %v", err)
		}
		want(s, "time", time.Since(start), time.Second)
		want(s, "cause", context.Cause(h.Context()), context.Canceled)
		thaw()
		synctest.Wait()
		want(s, "owners after the thaw", len(s.owners(name)), 0)
	})
}

// The wait of many callers is over at once, with few connections for all, before Redis has
// said anything. None is told of the network.
func TestManyTimeoutsAtOnce(t *testing.T) {
	t.Parallel()
	r := onRoad(t, func(o *redis.Options) { o.PoolSize, o.ReadTimeout = 1, 5*time.Minute })
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
			silent := err != nil && strings.HasSuffix(err.Error(), "ms, when the wait was over")
			if h != nil || ok || err != nil && !silent {
				t.Errorf("%v, %v, %v; want no hold, and no error of the network", h, ok, err)
			}
		})
	}
	all.Wait()
	release()
	r.free(r.name)
}

// The time of all in a line is over at the same moment, which is when the one behind the first
// is to ask.
func TestALineWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
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

// Thousands wait for a lock and leave: because their time is over or their context, before
// Redis is frozen and after. Each leaves on time, and then nothing is left.
func TestThousandsThatLeave(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := within(s), redistest.Name(s)
		freeze := frozen(s.rdb)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		var calls, wrong atomic.Int64
		s.rdb.AddHook(counter{&calls})
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

// A counter counts what a client sends, but for what go-redis says on a new connection.
type counter struct{ n *atomic.Int64 }

// DialHook is that of a redis.Hook.
func (counter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is that of a redis.Hook.
func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name != "hello" && name != "client" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is that of a redis.Hook.
func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// Those that wait in a process are served in the order in which they came.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		ctx, name := within(s), redistest.Name(s)
		h := must(s.locks.Lock(name).Lock(ctx))(s)
		const callers = 50
		served := make(chan int, callers)
		for i := range callers {
			go func() {
				h, err := s.locks.Lock(name).Lock(ctx)
				if err != nil {
					s.Error(err)
					return
				}
				served <- i
				if err := h.Unlock(ctx); err != nil {
					s.Error(err)
				}
			}()
			synctest.Wait()
		}
		noError(s, h.Unlock(ctx))
		for i := range callers {
			want(s, "served", comes(s, served), i)
		}
		synctest.Wait()
	})
}

// Close ends those that wait, and the contexts of holds, with ErrClosed; then nothing is
// renewed, and the lock ends with its lease. Also where Redis does not reply.
func TestClose(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %v", silent), func(t *testing.T) {
			inBubble(t, func(s *stage) {
				ctx, name := within(s), redistest.Name(s)
				limiters := rratelimiter.New(s.rdb)
				locks := rlock.New(limiters)
				freeze := frozen(s.rdb)
				renewed := must(locks.Lock(name).Lock(ctx))(s)
				leased := must(locks.Lock(name+"2").LockFor(ctx, time.Hour))(s)
				waiter := make(chan error, 2)
				for range 2 {
					go func() {
						_, err := locks.Lock(name).Lock(ctx)
						waiter <- err
					}()
					synctest.Wait()
				}
				thaw := func() {}
				if silent {
					thaw = freeze()
					go func() { _ = renewed.Relock(ctx) }()
					synctest.Wait()
				}
				noError(s, limiters.Close())
				for range 2 {
					if err := comes(s, waiter); !errors.Is(err, rratelimiter.ErrClosed) {
						s.Errorf("a waiter: %v", err)
					}
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
				want(s, "owners when its lease is over", len(s.owners(name)), 0)
			})
		})
	}
}

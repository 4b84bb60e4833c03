package rlock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The places of all that wait are renewed, also of those behind a thousand others: a place that ended would
// be lost when those before it are served at once.
func TestFairPlacesOfMany(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		const many = 1100
		h := must(s.lock().LockFor(s.Context(), time.Hour))(s)
		lock := s.lock()
		served := make(chan string, many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				h, err := lock.Lock(s.Context())
				if err == nil {
					served <- h.Owner()
					err = h.Unlock(s.Context())
				}
				if err != nil {
					s.Error(err)
				}
			})
		}
		synctest.Wait()
		order := s.waiting()
		want(s, "waiting", len(order), many)
		time.Sleep(45 * time.Second)
		for i, owner := range order {
			lasted(s, fmt.Sprint("the place of number ", i), s.left(owner), 19*time.Second, 30*time.Second)
		}
		noError(s, h.Unlock(s.Context()))
		for _, owner := range order {
			want(s, "the next owner", <-served, owner)
		}
		all.Wait()
	})
}

// A caller whose place was given up while it asks, as Close does, gets an error and no hold.
func TestFairPlaceIsGivenUp(t *testing.T) {
	r := fairViaProxy(t)
	ctx := within(t)
	found := make(chan string, 100)
	r.proxy.Observe(func(args []string) {
		if isFair(args) {
			found <- args[7]
		}
	})
	h := must(r.rival.Lock(ctx))(t)
	next := r.waits(r.mine, 1)
	key := comes(t, found)
	if !strings.HasPrefix(key, "redisson_unlock_latch:") {
		t.Fatalf("%q is not an idempotency key", key)
	}
	noError(t, r.look.Set(ctx, key, "0", time.Minute).Err())
	noError(t, h.Unlock(ctx))
	if h := comes(t, next.hold); h != nil {
		t.Errorf("it has %v", h)
	}
	wantErr(t, "Lock", comes(t, next.err), rratelimiter.ErrClosed)
}

// A Client that is closed while callers come and go leaves no place in the queue.
func TestFairCloseWhileTheyCome(t *testing.T) {
	s := newFairEnv(onRedis(t))
	ctx := within(t)
	h := must(s.lock().LockFor(ctx, time.Hour))(t)
	const callers, few = 40, 20
	for round := range redistest.Rounds(t, 60) {
		locks, end := open(s, s.rdb)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				wait := time.Hour
				if i%2 == 0 {
					wait = time.Millisecond
				}
				_, ok, err := locks.FairLock(s.name).TryLock(ctx, wait, 0)
				if ok || err != nil && !errors.Is(err, rratelimiter.ErrClosed) {
					t.Errorf("%v, %v; want ErrClosed, or false in time", ok, err)
				}
			})
		}
		redistest.Eventually(t, "some in the queue", func() bool { return len(s.waiting()) >= round%few })
		noError(t, end())
		all.Wait()
		s.gone()
	}
	noError(t, h.Unlock(ctx))
}

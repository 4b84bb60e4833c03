package rlock_test

import (
	"errors"
	"fmt"
	"math"
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

// A caller behind so many others that a look does not reach it sleeps anyway, and queues again when its
// place was taken away.
func TestFairFarBack(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		noError(s, s.look.HSet(ctx, s.name, "holder:1", 1).Err())
		s.putMany()
		scripts := s.count()
		s.waits(s.lock(), farBack+1)
		time.Sleep(time.Minute)
		if n := scripts.Load(); n > 10 {
			s.Errorf("%d scripts in a minute, want one every 10s", n)
		}
		owner := s.waiting()[farBack]
		noError(s, s.look.LRem(ctx, s.queue, 0, owner).Err())
		noError(s, s.look.ZRem(ctx, s.scores, owner).Err())
		time.Sleep(11 * time.Second)
		if waiting := s.waiting(); len(waiting) != farBack+1 || waiting[farBack] != owner {
			s.Errorf("%d wait, it is not the last of them", len(waiting))
		}
	})
}

// Thousands of dead ones at the head, of a process that has died with all its callers, are dropped at once.
func TestFairManyDead(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		for i := range 2000 {
			noError(s, s.look.RPush(s.Context(), s.queue, fmt.Sprintf("java:%d", i)).Err())
		}
		start := time.Now()
		h := must(s.lock().Lock(s.Context()))(s)
		lasted(s, "they held up the next one", time.Since(start), 0, 500*time.Millisecond)
		noError(s, h.Unlock(s.Context()))
		s.free()
	})
}

// The longest wait has a place in the queue as any other.
func TestFairLongestWait(t *testing.T) {
	fairInBubble(t, func(s *fairEnv) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		next := async(func() error {
			h, ok, err := lock.TryLock(ctx, math.MaxInt64, 0)
			if ok {
				err = h.Unlock(ctx)
			}
			return err
		})
		synctest.Wait()
		for _, owner := range s.waiting() {
			want(s, "its place lasts", s.left(owner), 30*time.Second)
		}
		want(s, "waiting", len(s.waiting()), 1)
		noError(s, h.Unlock(ctx))
		noError(s, comes(s, next))
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

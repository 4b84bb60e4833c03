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

// The places of all that wait are renewed, also of those behind a thousand others: a place that
// ended would be lost when those before it are served at once.
func TestFairPlacesOfMany(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		const many = 1100
		h := must(s.lock().LockFor(s.Context(), time.Hour))(s)
		lock := s.lock()
		served := make(chan string, many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				h, err := lock.Lock(s.Context())
				if err != nil {
					s.Error(err)
					return
				}
				served <- h.Owner()
				if err := h.Unlock(s.Context()); err != nil {
					s.Error(err)
				}
			})
		}
		synctest.Wait()
		order := s.waiting()
		want(s, "waiting", len(order), many)
		time.Sleep(45 * time.Second)
		for i, owner := range order {
			if left := s.left(owner); left < 19*time.Second || left > 30*time.Second {
				s.Fatalf("the place of number %d lasts %v, want 20s to 30s", i, left)
			}
		}
		noError(s, h.Unlock(s.Context()))
		for _, owner := range order {
			want(s, "the next owner", <-served, owner)
		}
		all.Wait()
	})
}

// A caller behind so many others that a look does not reach it queues again when its place was
// taken away.
func TestFairFarBackQueuesAgain(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		noError(s, s.look.HSet(ctx, s.name, "holder:1", 1).Err())
		s.putMany()
		s.waits(s.lock(), farBack+1)
		owner := s.waiting()[farBack]
		noError(s, s.look.LRem(ctx, s.queue, 0, owner).Err())
		noError(s, s.look.ZRem(ctx, s.scores, owner).Err())
		time.Sleep(11 * time.Second)
		if waiting := s.waiting(); len(waiting) != farBack+1 || waiting[farBack] != owner {
			s.Errorf("%d wait, it is not the last of them", len(waiting))
		}
	})
}

// Callers queue again when the list was lost and the sorted set was not.
func TestFairListIsLost(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		next := s.waits(lock, 1)
		owner := s.waiting()[0]
		noError(s, s.look.Del(ctx, s.queue).Err())
		time.Sleep(11 * time.Second)
		want(s, "queue", fmt.Sprint(s.waiting()), fmt.Sprint([]string{owner}))
		start := time.Now()
		noError(s, h.Unlock(ctx))
		noError(s, next.held().Unlock(ctx))
		want(s, "waited", time.Since(start), 0)
		s.free()
	})
}

// Thousands of dead ones at the head, of a process that has died with all its callers, are
// dropped at once.
func TestFairManyDead(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		for i := range 2000 {
			noError(s, s.look.RPush(s.Context(), s.queue, fmt.Sprintf("java:%d", i)).Err())
		}
		start := time.Now()
		h := must(s.lock().Lock(s.Context()))(s)
		if waited := time.Since(start); waited > 500*time.Millisecond {
			s.Errorf("they held up the next one for %v", waited)
		}
		noError(s, h.Unlock(s.Context()))
		s.free()
	})
}

// The longest wait has a place in the queue as any other.
func TestFairLongestWait(t *testing.T) {
	t.Parallel()
	fairInBubble(t, func(s *fairStage) {
		ctx := s.Context()
		lock := s.lock()
		h := must(lock.Lock(ctx))(s)
		next := make(chan error, 1)
		go func() {
			h, ok, err := lock.TryLock(ctx, math.MaxInt64, 0)
			if ok {
				err = h.Unlock(ctx)
			}
			next <- err
		}()
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
	t.Parallel()
	r := onFairRoad(t)
	ctx := within(t)
	latch := make(chan string, 1)
	stop := r.proxy.Observe(func(args []string) {
		if fairScript("5")(args) {
			select {
			case latch <- args[7]:
			default:
			}
		}
	})
	defer stop()
	h := must(r.rival.Lock(ctx))(t)
	next := r.waits(r.mine, 1)
	key := comes(t, latch)
	if !strings.HasPrefix(key, "redisson_unlock_latch:") {
		t.Fatalf("%q is no latch", key)
	}
	noError(t, r.look.Set(ctx, key, "0", time.Minute).Err())
	noError(t, h.Unlock(ctx))
	if h := comes(t, next.hold); h != nil {
		t.Errorf("it has %v", h)
	}
	if err := comes(t, next.err); !errors.Is(err, rratelimiter.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// A Client that is closed while callers come and go leaves nobody in the queue.
func TestFairCloseWhileTheyCome(t *testing.T) {
	t.Parallel()
	s := newFairStage(onRedis(t))
	ctx := within(t)
	h := must(s.lock().LockFor(ctx, time.Hour))(t)
	const callers, few = 40, 20
	for round := range redistest.Rounds(t, 60) {
		limiters, locks := s.fairClient()
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
		redistest.Until(t, "some in the queue", func() error {
			if len(s.waiting()) < round%few {
				return errors.New("not yet")
			}
			return nil
		})
		noError(t, limiters.Close())
		all.Wait()
		s.gone()
	}
	noError(t, h.Unlock(ctx))
}
